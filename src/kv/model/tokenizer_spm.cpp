// SentencePiece's BPE: the whole text is one word, and the pair whose token scores highest merges.
//
// Source: Kudo & Richardson 2018, and the behaviour of its library. Deviations: bytes that are not
// UTF-8 become byte tokens instead of U+FFFD; unused tokens are never made, not even on the way to
// another; no text normalisation beyond spaces (Llama's vocabularies have none).
#include <cmath>

#include "kv/check.hpp"
#include "kv/model/tokenizer_encoder.hpp"
#include "kv/model/tokenizer_merge.hpp"
#include "kv/model/utf8.hpp"

namespace kv {
namespace {

class SpmEncoder final : public TextEncoder {
 public:
  SpmEncoder(const Vocabulary& vocabulary, const TokenizerData& data)
      : vocabulary_(vocabulary),
        scores_(data.scores),
        unk_(data.unk),
        add_space_prefix_(data.add_space_prefix.value_or(true)) {
    check_scores();
    check_fallback();
  }

  void encode(std::string_view text, bool at_start, std::vector<TokenId>& ids) const override;

 private:
  void check_scores() const;
  void check_fallback() const;
  std::vector<MergeSymbol> characters(std::string_view text) const;
  std::optional<MergeResult> merge(std::string_view text, const MergeSymbol& left,
                                   const MergeSymbol& right) const;
  std::optional<TokenId> text_token(std::string_view spelling) const;
  void fall_back(std::string_view character, bool& in_unknown_run, std::vector<TokenId>& ids) const;

  const Vocabulary& vocabulary_;
  std::vector<float> scores_;
  std::optional<TokenId> unk_;
  bool add_space_prefix_;
};

void SpmEncoder::check_scores() const {
  if (scores_.size() != static_cast<std::size_t>(vocabulary_.size()))
    throw InputError("tokenizer.ggml.scores: has " + std::to_string(scores_.size()) +
                     " entries for " + std::to_string(vocabulary_.size()) + " tokens");
  for (TokenId id = 0; id < vocabulary_.size(); ++id)
    if (std::isnan(scores_[static_cast<std::size_t>(id)]))
      throw InputError("tokenizer.ggml.scores: the score of token " +
                       describe_token(id, vocabulary_.spelling(id)) + " is not a number");
}

void SpmEncoder::check_fallback() const {
  for (int byte = 0; byte < 256; ++byte)
    if (!vocabulary_.byte_token(static_cast<unsigned char>(byte)) && !unk_)
      throw InputError("tokenizer.ggml.tokens: no token for byte " + std::to_string(byte) +
                       " and no tokenizer.ggml.unknown_token_id to stand for it");
}

std::optional<TokenId> SpmEncoder::text_token(std::string_view spelling) const {
  const std::optional<TokenId> id = vocabulary_.find(spelling);
  if (!id || !vocabulary_.is_text(*id)) return std::nullopt;
  return id;
}

std::vector<MergeSymbol> SpmEncoder::characters(std::string_view text) const {
  std::vector<MergeSymbol> symbols;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t num_bytes = utf8_step(text.substr(begin)).num_bytes;
    const std::optional<TokenId> id = text_token(text.substr(begin, num_bytes));
    append_symbol(symbols, begin, num_bytes, id.value_or(-1));
    begin += num_bytes;
  }
  return symbols;
}

std::optional<MergeResult> SpmEncoder::merge(std::string_view text, const MergeSymbol& left,
                                             const MergeSymbol& right) const {
  const std::size_t num_bytes = left.num_bytes + right.num_bytes;
  if (num_bytes > vocabulary_.longest_spelling()) return std::nullopt;
  const std::optional<TokenId> id = text_token(text.substr(left.begin, num_bytes));
  if (!id) return std::nullopt;
  return MergeResult{-static_cast<double>(scores_[static_cast<std::size_t>(*id)]), *id};
}

/// Appends what stands for a character without a token: its bytes, or the unknown token once for a
/// run of such characters.
/// \param in_unknown_run whether the character before became unknown; updated
void SpmEncoder::fall_back(std::string_view character, bool& in_unknown_run,
                           std::vector<TokenId>& ids) const {
  if (character == kSpaceMark) character = " ";  // so that it decodes to what it stood for
  bool has_bytes = true;
  for (char c : character)
    has_bytes = has_bytes && vocabulary_.byte_token(static_cast<unsigned char>(c));
  if (has_bytes) {
    for (char c : character) ids.push_back(*vocabulary_.byte_token(static_cast<unsigned char>(c)));
  } else if (!in_unknown_run) {
    ids.push_back(*unk_);
  }
  in_unknown_run = !has_bytes;
}

void SpmEncoder::encode(std::string_view text, bool at_start, std::vector<TokenId>& ids) const {
  std::string marked;  // the text with its spaces marked
  if (at_start && add_space_prefix_) marked += kSpaceMark;
  for (char c : text) {
    if (c == ' ')
      marked += kSpaceMark;
    else
      marked += c;
  }
  std::vector<MergeSymbol> symbols = characters(marked);
  merge_symbols(symbols, [&](const MergeSymbol& left, const MergeSymbol& right) {
    return merge(marked, left, right);
  });
  bool in_unknown_run = false;
  for (int i = symbols.empty() ? -1 : 0; i >= 0; i = symbols[static_cast<std::size_t>(i)].next) {
    const MergeSymbol& symbol = symbols[static_cast<std::size_t>(i)];
    if (symbol.id < 0) {
      const auto character = std::string_view(marked).substr(symbol.begin, symbol.num_bytes);
      fall_back(character, in_unknown_run, ids);
    } else {
      ids.push_back(symbol.id);
      in_unknown_run = false;
    }
  }
}

}  // namespace

std::unique_ptr<TextEncoder> make_spm_encoder(const Vocabulary& vocabulary,
                                              const TokenizerData& data) {
  return std::make_unique<SpmEncoder>(vocabulary, data);
}

}  // namespace kv
