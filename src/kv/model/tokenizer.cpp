#include "kv/model/tokenizer.hpp"

#include <algorithm>
#include <array>

#include "kv/check.hpp"
#include "kv/model/gguf.hpp"  // printable
#include "kv/model/tokenizer_encoder.hpp"
#include "kv/model/utf8.hpp"

namespace kv {
namespace {

// SentencePiece's space mark triples a space, and positions in the result are ints.
constexpr std::size_t kMaxTextBytes = std::size_t{512} << 20;

// Control tokens that end a text or a turn in published models of the Llama family.
constexpr std::array<std::string_view, 6> kEndSpellings = {
    "<|endoftext|>", "<|end_of_text|>", "<|im_end|>", "<|eot_id|>", "<|end|>", "<end_of_turn>"};

/// Finds tokens that are matched in the text itself, before any merging.
class FixedTokens {
 public:
  explicit FixedTokens(const Vocabulary& vocabulary) : vocabulary_(vocabulary) {
    for (TokenId id = 0; id < vocabulary.size(); ++id) {
      const TokenType type = vocabulary.type(id);
      const std::string_view piece = vocabulary.piece(id);
      if (piece.empty() || (type != TokenType::control && type != TokenType::user_defined))
        continue;
      by_first_byte_[static_cast<unsigned char>(piece[0])].push_back(id);
    }
    const auto longer = [&](TokenId a, TokenId b) {
      const std::size_t a_bytes = vocabulary.piece(a).size(), b_bytes = vocabulary.piece(b).size();
      return a_bytes != b_bytes ? a_bytes > b_bytes : a < b;
    };
    for (std::vector<TokenId>& ids : by_first_byte_) std::sort(ids.begin(), ids.end(), longer);
  }

  /// The longest such token at the front of `text`.
  /// \param text at least one byte
  std::optional<TokenId> match(std::string_view text, Special special) const {
    for (TokenId id : by_first_byte_[static_cast<unsigned char>(text[0])])
      if (text.starts_with(vocabulary_.piece(id)) &&
          (special == Special::on || vocabulary_.type(id) == TokenType::user_defined))
        return id;
    return std::nullopt;
  }

 private:
  const Vocabulary& vocabulary_;
  std::array<std::vector<TokenId>, 256> by_first_byte_;  // longest first
};

std::unique_ptr<TextEncoder> make_encoder(const Vocabulary& vocabulary, const TokenizerData& data) {
  return data.model == "gpt2" ? make_bpe_encoder(vocabulary, data)
                              : make_spm_encoder(vocabulary, data);
}

/// Refuses unknown kinds before the rest of the data is read as one of them.
const TokenizerData& known_kind(const TokenizerData& data) {
  if (data.model != "gpt2" && data.model != "llama")
    throw InputError("tokenizer.ggml.model: unknown kind '" + printable(data.model) +
                     "'; known are gpt2 (byte-level BPE) and llama (SentencePiece)");
  return data;
}

}  // namespace

/// Everything that copies of a tokenizer share.
struct Tokenizer::Impl {
  explicit Impl(const TokenizerData& data)
      : vocabulary(known_kind(data)),
        fixed_tokens(vocabulary),
        encoder(make_encoder(vocabulary, data)),
        bos(data.bos),
        eos(data.eos),
        eot(data.eot) {
    const bool is_llama3 = data.model == "gpt2" && (data.pre.starts_with("llama"));
    add_bos = data.add_bos.value_or(data.model == "llama" || is_llama3);
    add_eos = data.add_eos.value_or(false);
    strip_space = data.model == "llama" && data.add_space_prefix.value_or(true);
    if (add_bos && !bos)
      throw InputError("tokenizer.ggml.bos_token_id: missing, but texts must begin with it");
    if (add_eos && !eos)
      throw InputError("tokenizer.ggml.eos_token_id: missing, but texts must end with it");
  }

  void encode(std::string_view text, Special special, bool at_start,
              std::vector<TokenId>& ids) const;
  std::string_view text_of(TokenId id, bool after_start_bos, Special special) const;

  void check(TokenId id) const {
    if (vocabulary.contains(id)) return;
    require(false, "token id " + std::to_string(id) + " is outside the vocabulary of " +
                       std::to_string(vocabulary.size()) + " tokens");
  }

  Vocabulary vocabulary;
  FixedTokens fixed_tokens;
  std::unique_ptr<TextEncoder> encoder;
  std::optional<TokenId> bos, eos, eot;
  bool add_bos = false;
  bool add_eos = false;
  bool strip_space = false;  // decode drops the space that encode puts after BOS
};

/// Appends the ids of `text`: fixed tokens as they stand, the encoder for the text between them.
void Tokenizer::Impl::encode(std::string_view text, Special special, bool at_start,
                             std::vector<TokenId>& ids) const {
  if (text.size() > kMaxTextBytes)
    throw InputError("the text has " + std::to_string(text.size()) +
                     " bytes; the tokenizer takes at most 512 MiB");
  std::size_t begin = 0;  // of the ordinary text not yet encoded
  const auto encode_until = [&](std::size_t end) {
    if (end > begin) encoder->encode(text.substr(begin, end - begin), at_start && begin == 0, ids);
  };
  for (std::size_t i = 0; i < text.size();) {
    const std::optional<TokenId> id = fixed_tokens.match(text.substr(i), special);
    if (!id) {
      ++i;
      continue;
    }
    encode_until(i);
    ids.push_back(*id);
    i += vocabulary.piece(*id).size();
    begin = i;
  }
  encode_until(text.size());
}

/// What decode shows for `id`.
/// \param after_start_bos the id before is BOS and the first of all
std::string_view Tokenizer::Impl::text_of(TokenId id, bool after_start_bos, Special special) const {
  check(id);
  std::string_view text = vocabulary.piece(id);
  if (vocabulary.type(id) == TokenType::control) return special == Special::on ? text : "";
  if (vocabulary.type(id) == TokenType::unknown) return kReplacementCharacter;
  // A user-defined token at the start has no space put before it; its own stays.
  const bool may_strip = vocabulary.type(id) != TokenType::user_defined;
  if (after_start_bos && strip_space && may_strip && text.starts_with(' ')) text.remove_prefix(1);
  return text;
}

Tokenizer::Tokenizer(const TokenizerData& data) : impl_(std::make_shared<const Impl>(data)) {}

std::vector<TokenId> Tokenizer::encode(std::string_view text, Special special) const {
  std::vector<TokenId> ids;
  if (impl_->add_bos) ids.push_back(*impl_->bos);
  impl_->encode(text, special, /*at_start=*/true, ids);
  if (impl_->add_eos) ids.push_back(*impl_->eos);
  return ids;
}

std::vector<TokenId> Tokenizer::encode_continuation(std::string_view text, Special special) const {
  std::vector<TokenId> ids;
  impl_->encode(text, special, /*at_start=*/false, ids);
  return ids;
}

std::string Tokenizer::decode(std::span<const TokenId> ids, Special special) const {
  std::string text;
  for (std::size_t i = 0; i < ids.size(); ++i)
    text += impl_->text_of(ids[i], i == 1 && ids[0] == impl_->bos, special);
  return text;
}

std::string_view Tokenizer::piece(TokenId id) const {
  impl_->check(id);
  return impl_->vocabulary.piece(id);
}

TokenType Tokenizer::type(TokenId id) const {
  impl_->check(id);
  return impl_->vocabulary.type(id);
}

std::optional<TokenId> Tokenizer::find(std::string_view token) const {
  return impl_->vocabulary.find(token);
}

int Tokenizer::vocab_size() const { return impl_->vocabulary.size(); }
std::optional<TokenId> Tokenizer::bos() const { return impl_->bos; }
std::optional<TokenId> Tokenizer::eos() const { return impl_->eos; }

bool Tokenizer::is_end(TokenId id) const {
  const Vocabulary& vocabulary = impl_->vocabulary;
  if (!vocabulary.contains(id)) return false;
  if (id == impl_->eos || id == impl_->eot) return true;
  return vocabulary.type(id) == TokenType::control &&
         std::find(kEndSpellings.begin(), kEndSpellings.end(), vocabulary.spelling(id)) !=
             kEndSpellings.end();
}

std::string StreamDecoder::push(TokenId id) {
  const Tokenizer::Impl& impl = *tokenizer_.impl_;
  waiting_ += impl.text_of(id, after_start_bos_, Special::off);
  after_start_bos_ = at_start_ && id == impl.bos;
  at_start_ = false;

  // Hold back the last character if it is cut; everything before it can be told now.
  std::size_t end = 0;
  while (end < waiting_.size()) {
    const Utf8Step step = utf8_step(std::string_view(waiting_).substr(end));
    if (step.kind == Utf8Step::Kind::incomplete) break;
    end += step.num_bytes;
  }
  std::string out = to_valid_utf8(std::string_view(waiting_).substr(0, end));
  waiting_.erase(0, end);
  return out;
}

std::string StreamDecoder::finish() {
  std::string out = to_valid_utf8(waiting_);
  waiting_.clear();
  at_start_ = true;
  after_start_bos_ = false;
  return out;
}

}  // namespace kv
