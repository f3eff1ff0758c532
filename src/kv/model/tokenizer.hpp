// Text to tokens and back, as the vocabulary in the model's file says.
//
// Two kinds are known. Byte-level BPE ("gpt2"): a regular expression cuts the text into words, then
// the bytes of each word are merged in the order in which the merges were learned. SentencePiece
// ("llama"): the whole text is merged, always the pair whose result has the highest score, and
// characters that the vocabulary lacks become byte tokens.
//
// Sources: Sennrich et al. 2016 (BPE); Radford et al. 2019 (byte-level BPE); Kudo & Richardson 2018
// (SentencePiece); the GGUF specification (tokenizer.ggml keys).
// Conventions that differ between systems:
// - Text is bytes. Bytes that are not UTF-8 are kept: decode(encode(x)) == x, see decode().
// - The spelling of a control token in ordinary text is ordinary text, unless Special::on.
// - SentencePiece puts its leading space before text at the very start only, not after a control
//   token (the newer rule; older systems put one after every control token).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kv/tensor.hpp"

namespace kv {

class GgufFile;

/// What a tokenizer is built from; the fields are the tokenizer.ggml keys of a GGUF file.
struct TokenizerData {
  std::string model;                ///< "gpt2": byte-level BPE; "llama": SentencePiece
  std::string pre;                  ///< gpt2: name of the rule that cuts text into words
  std::vector<std::string> tokens;  ///< spelling of each id
  std::vector<float> scores;        ///< llama: one for each token, higher merges first
  std::vector<std::int32_t> types;  ///< one TokenType for each token; empty: all normal
  std::vector<std::string> merges;  ///< gpt2: "left right", in the order they were learned
  std::optional<TokenId> bos;       ///< begin of sequence
  std::optional<TokenId> eos;       ///< end of sequence
  std::optional<TokenId> eot;       ///< end of turn in a chat
  std::optional<TokenId> unk;       ///< llama: for characters that are neither tokens nor bytes
  std::optional<bool> add_bos;      ///< default: yes for llama and the Llama-3 rule
  std::optional<bool> add_eos;      ///< default: no
  std::optional<bool> add_space_prefix;  ///< llama: a space before the text; default yes
  std::optional<bool> ignore_merges;     ///< gpt2: a word that is a token is not merged; default:
                                         ///< yes for the Llama-3 rule
};

/// What a token is; the values are those of the GGUF file format.
enum class TokenType : std::int32_t {
  normal = 1,        ///< a piece of text
  unknown = 2,       ///< stands for what has no token
  control = 3,       ///< a mark such as end of sequence; has no text
  user_defined = 4,  ///< text that is always one token
  unused = 5,        ///< never produced
  byte = 6,          ///< llama: spelled <0xXX>, stands for one byte
};

/// Whether the spelling of a control token stands for the token. Use `on` for templates that the
/// program wrote, never for what a user typed.
enum class Special {
  off,  ///< the spelling is ordinary text
  on,   ///< the spelling is the control token
};

/// A vocabulary and its rules. Immutable; copies share the tables; safe from several threads.
class Tokenizer {
 public:
  /// \throws InputError naming the key at fault, when the vocabulary contradicts itself. Tolerated:
  ///   empty tokens (never produced), repeated merges (the first counts), byte-level vocabularies
  ///   that lack some bytes (encode() refuses those bytes), merges that would spell a control token
  ///   (they never apply)
  explicit Tokenizer(const TokenizerData& data);

  /// The ids of a whole text, with BOS and EOS where the model wants them.
  ///
  /// Takes time proportional to n log n for n bytes, whatever the text. User-defined tokens are
  /// found first, leftmost and longest; with Special::on control tokens as well.
  /// \throws InputError when a byte has no token, or the text is longer than 512 MiB
  std::vector<TokenId> encode(std::string_view text, Special special = Special::off) const;

  /// The ids of text that follows other tokens: no BOS, no EOS, no leading space.
  /// \throws InputError as encode()
  std::vector<TokenId> encode_continuation(std::string_view text,
                                           Special special = Special::off) const;

  /// The bytes that `ids` stand for; not necessarily UTF-8 (see StreamDecoder and utf8.hpp).
  ///
  /// Control tokens give nothing, or their spelling with Special::on; an unknown token U+FFFD.
  /// SentencePiece turns U+2581 into a space. Where its encode() puts a leading space, decode()
  /// takes it away again: one space of the token right after a BOS that is the first id. Ids that
  /// do not start with BOS go on from other text and keep theirs.
  /// \throws std::invalid_argument for an id outside the vocabulary
  std::string decode(std::span<const TokenId> ids, Special special = Special::off) const;

  /// The bytes that one id stands for; the spelling of control and unknown tokens.
  /// \throws std::invalid_argument for an id outside the vocabulary
  std::string_view piece(TokenId id) const;

  /// What `id` is.
  /// \throws std::invalid_argument for an id outside the vocabulary
  TokenType type(TokenId id) const;

  /// The id spelled `token` in the vocabulary's own alphabet, if there is one.
  std::optional<TokenId> find(std::string_view token) const;

  int vocab_size() const;              ///< number of tokens
  std::optional<TokenId> bos() const;  ///< begin of sequence
  std::optional<TokenId> eos() const;  ///< end of sequence

  /// Whether generation ends with `id`: EOS, EOT, or a control token with one of the usual names
  /// of these two (such as <|im_end|>, <|eot_id|>, <|endoftext|>). False for ids out of range.
  bool is_end(TokenId id) const;

 private:
  friend class StreamDecoder;
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

/// Decodes a stream of tokens without ever giving out a part of a character.
///
/// The concatenation of all results is to_valid_utf8(decode(all ids)): bytes that can still become
/// a character wait for the next token; bytes that cannot become U+FFFD at once.
/// Invariant: at most 3 bytes wait.
class StreamDecoder {
 public:
  /// \param tokenizer must outlive this
  explicit StreamDecoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  /// \return the characters that `id` completes, valid UTF-8, possibly none
  /// \throws std::invalid_argument for an id outside the vocabulary
  std::string push(TokenId id);

  /// Ends the stream; the next push starts a new one.
  /// \return U+FFFD when bytes of a cut character were waiting, else nothing
  std::string finish();

 private:
  Tokenizer tokenizer_;
  std::string waiting_;           // an incomplete character
  bool at_start_ = true;          // no id seen yet
  bool after_start_bos_ = false;  // the one id seen so far is BOS
};

/// Reads the tokenizer of a model's file. Whether its size fits the weights is for load() to check.
///
/// \throws InputError naming the file and the key: a missing or contradictory vocabulary
Tokenizer load_tokenizer(const GgufFile& file);

}  // namespace kv
