// Small vocabularies whose encodings can be worked out by hand.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "kv/model/tokenizer.hpp"
#include "kv/model/tokenizer_vocabulary.hpp"

namespace kv_test {

/// Adds a token and returns its id.
inline kv::TokenId add_token(kv::TokenizerData& data, const std::string& spelling,
                             kv::TokenType type = kv::TokenType::normal, float score = 0) {
  data.tokens.push_back(spelling);
  data.types.push_back(static_cast<std::int32_t>(type));
  if (data.model == "llama") data.scores.push_back(score);
  return static_cast<kv::TokenId>(data.tokens.size() - 1);
}

/// Adds a merge and, unless it is there, the token it makes.
inline void add_merge(kv::TokenizerData& data, const std::string& left, const std::string& right) {
  data.merges.push_back(left + " " + right);
  for (const std::string& token : data.tokens)
    if (token == left + right) return;
  add_token(data, left + right);
}

/// Byte-level BPE: the id of a byte is the byte; 256 <|endoftext|>, 257 <|im_start|>, 258
/// <|im_end|>; from 259 what the merges make, in order.
inline kv::TokenizerData toy_bpe(
    std::initializer_list<std::pair<std::string, std::string>> merges = {}) {
  kv::TokenizerData data;
  data.model = "gpt2";
  data.pre = "gpt-2";
  for (int byte = 0; byte < 256; ++byte)
    add_token(data, kv::byte_level_character(static_cast<unsigned char>(byte)));
  data.eos = add_token(data, "<|endoftext|>", kv::TokenType::control);
  add_token(data, "<|im_start|>", kv::TokenType::control);
  add_token(data, "<|im_end|>", kv::TokenType::control);
  for (const auto& [left, right] : merges) add_merge(data, left, right);
  return data;
}

/// The spelling of a byte token, such as <0x0A>.
inline std::string byte_spelling(int byte) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  const auto b = static_cast<std::size_t>(byte);
  return std::string("<0x") + kHex[b / 16] + kHex[b % 16] + ">";
}

/// SentencePiece, laid out as Llama 2: 0 <unk>, 1 <s>, 2 </s>, 3 + byte the byte tokens; from 259
/// the pieces, in order, each with its score. "_" in a piece is written for U+2581.
inline kv::TokenizerData toy_spm(std::initializer_list<std::pair<std::string, float>> pieces = {}) {
  kv::TokenizerData data;
  data.model = "llama";
  data.unk = add_token(data, "<unk>", kv::TokenType::unknown);
  data.bos = add_token(data, "<s>", kv::TokenType::control);
  data.eos = add_token(data, "</s>", kv::TokenType::control);
  for (int byte = 0; byte < 256; ++byte) add_token(data, byte_spelling(byte), kv::TokenType::byte);
  for (const auto& [piece, score] : pieces) {
    std::string spelling;
    for (char c : piece) spelling += c == '_' ? std::string(kv::kSpaceMark) : std::string(1, c);
    add_token(data, spelling, kv::TokenType::normal, score);
  }
  return data;
}

}  // namespace kv_test
