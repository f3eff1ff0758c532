// What a kind of tokenizer has to do: turn ordinary text into ids.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "kv/model/tokenizer_vocabulary.hpp"

namespace kv {

/// Encodes stretches of text between special tokens. Immutable.
class TextEncoder {
 public:
  virtual ~TextEncoder() = default;

  /// Appends the ids of `text`.
  /// \param text     any bytes, not empty, at most 512 MiB
  /// \param at_start nothing comes before it: here SentencePiece puts its leading space
  /// \param ids      receives the ids
  /// \throws InputError when a byte has no token
  virtual void encode(std::string_view text, bool at_start, std::vector<TokenId>& ids) const = 0;
};

/// Byte-level BPE (tokenizer_bpe.cpp).
/// \param vocabulary must outlive the encoder
/// \param data       pre, merges and ignore_merges are used
/// \throws InputError naming an unknown pre-tokenizer, or a merge that is no merge of two tokens
std::unique_ptr<TextEncoder> make_bpe_encoder(const Vocabulary& vocabulary,
                                              const TokenizerData& data);

/// SentencePiece's BPE with byte fallback (tokenizer_spm.cpp).
/// \param vocabulary must outlive the encoder
/// \param data       scores, unk and add_space_prefix are used
/// \throws InputError when the scores do not fit, or when neither bytes nor an unknown token could
///   stand for characters that the vocabulary lacks
std::unique_ptr<TextEncoder> make_spm_encoder(const Vocabulary& vocabulary,
                                              const TokenizerData& data);

}  // namespace kv
