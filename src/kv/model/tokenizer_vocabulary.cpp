#include "kv/model/tokenizer_vocabulary.hpp"

#include <algorithm>
#include <charconv>
#include <limits>

#include "kv/check.hpp"
#include "kv/model/gguf.hpp"  // printable
#include "kv/model/utf8.hpp"

namespace kv {
namespace {

bool is_printable_latin1(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) ||
         (byte >= 0xAE && byte <= 0xFF);
}

std::array<std::string, 256> make_byte_alphabet() {
  std::array<std::string, 256> alphabet;
  int next_free = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const int code = is_printable_latin1(byte) ? byte : next_free++;
    std::string& character = alphabet[static_cast<std::size_t>(byte)];
    if (code < 0x80) {
      character = static_cast<char>(code);
    } else {  // all are below U+0800: two bytes
      character = static_cast<char>(0xC0 | (code >> 6));
      character += static_cast<char>(0x80 | (code & 0x3F));
    }
  }
  return alphabet;
}

/// The byte of each character of the alphabet.
const std::unordered_map<std::string_view, unsigned char>& byte_of_character() {
  static const auto table = [] {
    std::unordered_map<std::string_view, unsigned char> bytes;
    for (int byte = 0; byte < 256; ++byte) {
      const auto b = static_cast<unsigned char>(byte);
      bytes.emplace(byte_level_character(b), b);
    }
    return bytes;
  }();
  return table;
}

/// The bytes of a byte-level spelling; nullopt when a character is not of the alphabet.
std::optional<std::string> from_byte_level(std::string_view spelling) {
  std::string bytes;
  while (!spelling.empty()) {
    const Utf8Step step = utf8_step(spelling);
    const auto found = byte_of_character().find(spelling.substr(0, step.num_bytes));
    if (found == byte_of_character().end()) return std::nullopt;
    bytes += static_cast<char>(found->second);
    spelling.remove_prefix(step.num_bytes);
  }
  return bytes;
}

/// The byte that a spelling like <0x1F> stands for.
std::optional<unsigned char> parse_byte_spelling(std::string_view spelling) {
  if (spelling.size() != 6 || !spelling.starts_with("<0x") || spelling[5] != '>')
    return std::nullopt;
  unsigned byte = 0;
  const char* end = spelling.data() + 5;
  if (std::from_chars(spelling.data() + 3, end, byte, 16).ptr != end) return std::nullopt;
  return static_cast<unsigned char>(byte);
}

std::string with_spaces(std::string_view spelling) {
  std::string text;
  while (!spelling.empty()) {
    const bool is_mark = spelling.starts_with(kSpaceMark);
    text += is_mark ? ' ' : spelling[0];
    spelling.remove_prefix(is_mark ? kSpaceMark.size() : 1);
  }
  return text;
}

}  // namespace

const std::string& byte_level_character(unsigned char byte) {
  static const std::array<std::string, 256> alphabet = make_byte_alphabet();
  return alphabet[byte];
}

std::string describe_token(TokenId id, std::string_view spelling) {
  return std::to_string(id) + " ('" + printable(spelling) + "')";
}

Vocabulary::Vocabulary(const TokenizerData& data) : spellings_(data.tokens) {
  if (spellings_.empty()) throw InputError("tokenizer.ggml.tokens: the vocabulary has no tokens");
  if (spellings_.size() > static_cast<std::size_t>(std::numeric_limits<TokenId>::max()))
    throw InputError("tokenizer.ggml.tokens: more tokens than 32-bit ids");
  read_types(data.types);
  index_spellings();
  check_special(data.bos, "tokenizer.ggml.bos_token_id");
  check_special(data.eos, "tokenizer.ggml.eos_token_id");
  check_special(data.eot, "tokenizer.ggml.eot_token_id");
  check_special(data.unk, "tokenizer.ggml.unknown_token_id");
  pieces_ = spellings_;
  if (data.model == "gpt2")
    read_byte_level();
  else
    read_sentencepiece();
}

void Vocabulary::read_types(const std::vector<std::int32_t>& types) {
  if (types.empty()) {
    types_.assign(spellings_.size(), TokenType::normal);
    return;
  }
  if (types.size() != spellings_.size())
    throw InputError("tokenizer.ggml.token_type: has " + std::to_string(types.size()) +
                     " entries for " + std::to_string(spellings_.size()) + " tokens");
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (types[i] < 1 || types[i] > 6)
      throw InputError("tokenizer.ggml.token_type: token " +
                       describe_token(static_cast<TokenId>(i), spellings_[i]) + " has type " +
                       std::to_string(types[i]) + "; known are 1 to 6");
    types_.push_back(static_cast<TokenType>(types[i]));
  }
}

void Vocabulary::index_spellings() {
  index_.reserve(spellings_.size());
  for (std::size_t i = 0; i < spellings_.size(); ++i) {
    const std::string& spelling = spellings_[i];
    if (spelling.empty()) continue;
    longest_spelling_ = std::max(longest_spelling_, spelling.size());
    const auto id = static_cast<TokenId>(i);
    const auto [entry, is_new] = index_.emplace(spelling, id);
    if (!is_new)
      throw InputError("tokenizer.ggml.tokens: token " + describe_token(id, spelling) +
                       " repeats token " + std::to_string(entry->second));
  }
}

void Vocabulary::check_special(const std::optional<TokenId>& id, std::string_view key) const {
  if (id && !contains(*id))
    throw InputError(std::string(key) + ": id " + std::to_string(*id) +
                     " is outside the vocabulary of " + std::to_string(size()) + " tokens");
}

void Vocabulary::read_byte_level() {
  for (TokenId id = 0; id < size(); ++id) {
    if (type(id) == TokenType::byte)
      throw InputError("tokenizer.ggml.token_type: token " + describe_token(id, spelling(id)) +
                       " has type 6 (byte), which only the model 'llama' uses");
    if (type(id) != TokenType::normal && type(id) != TokenType::unused) continue;
    // A spelling outside the alphabet is tolerated and stands for its own bytes.
    std::optional<std::string> bytes = from_byte_level(spelling(id));
    if (bytes) pieces_[static_cast<std::size_t>(id)] = *std::move(bytes);
  }
  for (int byte = 0; byte < 256; ++byte) {
    const auto b = static_cast<unsigned char>(byte);
    const std::optional<TokenId> id = find(byte_level_character(b));
    if (id && type(*id) == TokenType::normal) byte_tokens_[b] = id;
  }
}

void Vocabulary::read_sentencepiece() {
  for (TokenId id = 0; id < size(); ++id) {
    std::string& piece = pieces_[static_cast<std::size_t>(id)];
    if (type(id) == TokenType::byte) {
      const std::optional<unsigned char> byte = parse_byte_spelling(spelling(id));
      if (!byte)
        throw InputError("tokenizer.ggml.tokens: token " + describe_token(id, spelling(id)) +
                         " has type 6 (byte) but is not spelled like <0x1F>");
      if (byte_tokens_[*byte])
        throw InputError("tokenizer.ggml.tokens: token " + describe_token(id, spelling(id)) +
                         " stands for the same byte as token " +
                         std::to_string(*byte_tokens_[*byte]));
      byte_tokens_[*byte] = id;
      piece = std::string(1, static_cast<char>(*byte));
    } else if (is_text(id) || type(id) == TokenType::unused) {
      piece = with_spaces(spelling(id));
    }
  }
}

std::optional<TokenId> Vocabulary::find(std::string_view spelling) const {
  const auto found = index_.find(spelling);
  if (found == index_.end()) return std::nullopt;
  return found->second;
}

}  // namespace kv
