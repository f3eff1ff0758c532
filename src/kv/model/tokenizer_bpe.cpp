// Byte-level BPE: the bytes of a word, merged in the order in which the merges were learned.
//
// Source: Sennrich et al. 2016; Radford et al. 2019 (bytes as the first symbols).
#include <cstdint>
#include <unordered_map>

#include "kv/check.hpp"
#include "kv/model/gguf.hpp"  // printable
#include "kv/model/tokenizer_encoder.hpp"
#include "kv/model/tokenizer_merge.hpp"
#include "kv/model/tokenizer_pre.hpp"

namespace kv {
namespace {

std::uint64_t pair_key(TokenId left, TokenId right) {
  return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32) |
         static_cast<std::uint32_t>(right);
}

class BpeEncoder final : public TextEncoder {
 public:
  BpeEncoder(const Vocabulary& vocabulary, const TokenizerData& data)
      : vocabulary_(vocabulary),
        pre_tokenizer_(data.pre),
        ignore_merges_(data.ignore_merges.value_or(pre_tokenizer_.is_llama3())) {
    read_merges(data.merges);
    if (ignore_merges_) index_words();
  }

  void encode(std::string_view text, bool /*at_start*/, std::vector<TokenId>& ids) const override {
    std::vector<MergeSymbol> symbols;
    for (std::string_view word : pre_tokenizer_.split(text)) {
      if (ignore_merges_) {
        const auto whole = words_.find(word);
        if (whole != words_.end()) {
          ids.push_back(whole->second);
          continue;
        }
      }
      encode_word(text, word, symbols, ids);
    }
  }

 private:
  void read_merges(const std::vector<std::string>& merges);
  void index_words();
  void encode_word(std::string_view text, std::string_view word, std::vector<MergeSymbol>& symbols,
                   std::vector<TokenId>& ids) const;

  const Vocabulary& vocabulary_;
  PreTokenizer pre_tokenizer_;
  bool ignore_merges_;
  std::unordered_map<std::uint64_t, MergeResult> merges_;  // by pair_key
  std::unordered_map<std::string_view, TokenId> words_;    // normal tokens by their bytes
};

void BpeEncoder::read_merges(const std::vector<std::string>& merges) {
  merges_.reserve(merges.size());
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const std::string& merge = merges[rank];
    const auto error = [&](const std::string& what) {
      return InputError("tokenizer.ggml.merges: merge " + std::to_string(rank) + " ('" +
                        printable(merge) + "') " + what);
    };
    const std::size_t space = merge.find(' ');
    if (space == std::string::npos || space == 0 || space + 1 == merge.size() ||
        merge.find(' ', space + 1) != std::string::npos)
      throw error("is not two tokens with one space between");
    const std::string left = merge.substr(0, space), right = merge.substr(space + 1);
    const auto token = [&](const std::string& spelling) {
      const std::optional<TokenId> id = vocabulary_.find(spelling);
      if (!id) throw error("names '" + printable(spelling) + "', which is not a token");
      return *id;
    };
    const TokenId left_id = token(left), right_id = token(right), merged = token(left + right);
    // Text must never become a control token, whatever the file says. User-defined tokens have been
    // found before this, and unused ones are never made.
    if (vocabulary_.type(merged) != TokenType::normal) continue;
    merges_.emplace(pair_key(left_id, right_id), MergeResult{static_cast<double>(rank), merged});
  }
}

void BpeEncoder::index_words() {
  for (TokenId id = 0; id < vocabulary_.size(); ++id) {
    if (vocabulary_.type(id) != TokenType::normal) continue;
    std::string spelling;
    for (char c : vocabulary_.piece(id))
      spelling += byte_level_character(static_cast<unsigned char>(c));
    // A token spelled outside the byte alphabet is no word of it.
    if (spelling == vocabulary_.spelling(id)) words_.emplace(vocabulary_.piece(id), id);
  }
}

void BpeEncoder::encode_word(std::string_view text, std::string_view word,
                             std::vector<MergeSymbol>& symbols, std::vector<TokenId>& ids) const {
  symbols.clear();
  for (std::size_t i = 0; i < word.size(); ++i) {
    const auto byte = static_cast<unsigned char>(word[i]);
    const std::optional<TokenId> id = vocabulary_.byte_token(byte);
    if (!id) {
      const auto position = static_cast<std::size_t>(word.data() - text.data()) + i;
      throw InputError("the vocabulary has no token for byte " + std::to_string(byte) +
                       " at position " + std::to_string(position) + " of the text; remove it ('" +
                       printable(word, 20) + "')");
    }
    append_symbol(symbols, i, 1, *id);
  }
  merge_symbols(
      symbols,
      [&](const MergeSymbol& left, const MergeSymbol& right) -> std::optional<MergeResult> {
        const auto found = merges_.find(pair_key(left.id, right.id));
        if (found == merges_.end()) return std::nullopt;
        return found->second;
      });
  for (int i = 0; i >= 0; i = symbols[static_cast<std::size_t>(i)].next)
    ids.push_back(symbols[static_cast<std::size_t>(i)].id);
}

}  // namespace

std::unique_ptr<TextEncoder> make_bpe_encoder(const Vocabulary& vocabulary,
                                              const TokenizerData& data) {
  return std::make_unique<BpeEncoder>(vocabulary, data);
}

}  // namespace kv
