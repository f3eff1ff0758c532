// The checked vocabulary that both kinds of tokenizer look tokens up in.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "kv/model/tokenizer.hpp"

namespace kv {

/// U+2581, which SentencePiece's vocabularies write for a space.
inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";

/// Spelling, type and bytes of each token. Not movable: the index points into the spellings.
class Vocabulary {
 public:
  /// \param data model, tokens, types and the special ids are used
  /// \throws InputError naming the key at fault
  explicit Vocabulary(const TokenizerData& data);
  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;

  /// Tokens of the vocabulary.
  int size() const { return static_cast<int>(spellings_.size()); }
  /// Whether the vocabulary has the id.
  bool contains(TokenId id) const { return id >= 0 && id < size(); }
  /// What kind of token it is; the id must be of the vocabulary.
  TokenType type(TokenId id) const { return types_[static_cast<std::size_t>(id)]; }

  /// As the file writes it.
  std::string_view spelling(TokenId id) const { return spellings_[static_cast<std::size_t>(id)]; }
  /// The bytes it stands for; of control and unknown tokens the spelling.
  std::string_view piece(TokenId id) const { return pieces_[static_cast<std::size_t>(id)]; }
  /// The token of this spelling; empty tokens are never found.
  std::optional<TokenId> find(std::string_view spelling) const;
  /// The token that stands for a single byte; nullopt when the vocabulary lacks it.
  std::optional<TokenId> byte_token(unsigned char byte) const { return byte_tokens_[byte]; }
  /// Bytes of the longest spelling.
  std::size_t longest_spelling() const { return longest_spelling_; }

  /// Whether ordinary text may become this token.
  bool is_text(TokenId id) const {
    return type(id) == TokenType::normal || type(id) == TokenType::user_defined;
  }

 private:
  void read_types(const std::vector<std::int32_t>& types);
  void index_spellings();
  void check_special(const std::optional<TokenId>& id, std::string_view key) const;
  void read_byte_level();
  void read_sentencepiece();

  std::vector<std::string> spellings_;
  std::vector<TokenType> types_;
  std::vector<std::string> pieces_;
  std::unordered_map<std::string_view, TokenId> index_;  // views into spellings_
  std::array<std::optional<TokenId>, 256> byte_tokens_;
  std::size_t longest_spelling_ = 0;
};

/// The character that byte-level BPE writes for `byte`: itself where it is printable Latin-1, else
/// the next free one from U+0100 on; so a vocabulary file holds no control characters or spaces.
/// Source: Radford et al. 2019 (GPT-2's byte alphabet).
/// \return the character in UTF-8
const std::string& byte_level_character(unsigned char byte);

/// A token for messages: "12 ('<|im_end|>')".
std::string describe_token(TokenId id, std::string_view spelling);

}  // namespace kv
