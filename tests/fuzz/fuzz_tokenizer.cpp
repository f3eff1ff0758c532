// Any bytes as text, through both kinds of tokenizer: nothing may crash, and the text comes back.
//
// Checked: decode(encode(x)) == x; the stream's parts join to the valid form of x; ordinary text
// never becomes a control token; with Special::on the spelled-out ids are the text.
// Rules of spaces: SentencePiece turns U+2581 into a space; it may lose one space after a BOS that
// the text itself spells, so Special::on is checked without BOS.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "../support/toy_vocabulary.hpp"
#include "kv/model/tokenizer.hpp"
#include "kv/model/utf8.hpp"

namespace {

void check(bool ok) {
  if (!ok) std::abort();  // libFuzzer keeps the input
}

kv::Tokenizer bpe(const char* rule) {
  // U+0120 is the space of the byte alphabet, U+00C3 and U+00A9 the bytes of e with acute.
  kv::TokenizerData data = kv_test::toy_bpe({{"a", "a"},
                                             {"\u0120", "\u0120"},
                                             {"aa", "aa"},
                                             {"\u0120", "a"},
                                             {"\u00c3", "\u00a9"},
                                             {"<", "|"},
                                             {"'", "s"},
                                             {"1", "2"}});
  data.pre = rule;
  data.add_bos = false;
  kv_test::add_token(data, "user  defined", kv::TokenType::user_defined);
  return kv::Tokenizer(data);
}

kv::Tokenizer spm() {
  kv::TokenizerData data = kv_test::toy_spm({{"_", -9},
                                             {"a", -9},
                                             {"b", -9},
                                             {"aa", -1},
                                             {"ab", -2},
                                             {"_a", -3},
                                             {"__", -1},
                                             {"aaaa", -4},
                                             {"\u00e9", -5},
                                             {"<s", -6}});
  kv_test::add_token(data, "user  defined", kv::TokenType::user_defined);
  return kv::Tokenizer(data);
}

std::string marks_to_spaces(std::string text) {
  for (std::size_t at = 0; (at = text.find(kv::kSpaceMark, at)) != std::string::npos;)
    text.replace(at, kv::kSpaceMark.size(), " ");
  return text;
}

void check_round_trip(const kv::Tokenizer& tokenizer, std::string_view text,
                      const std::string& expected) {
  const std::vector<kv::TokenId> ids = tokenizer.encode(text);
  check(tokenizer.decode(ids) == expected);

  kv::StreamDecoder stream(tokenizer);
  std::string joined;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    check(tokenizer.type(ids[i]) != kv::TokenType::control ||
          (i == 0 && ids[i] == tokenizer.bos()));
    joined += stream.push(ids[i]);
  }
  joined += stream.finish();
  check(joined == kv::to_valid_utf8(expected));

  const auto special = tokenizer.encode_continuation(text, kv::Special::on);
  const bool starts_with_bos = !special.empty() && special[0] == tokenizer.bos();
  if (!starts_with_bos) check(tokenizer.decode(special, kv::Special::on) == expected);
}

}  // namespace

/// libFuzzer's entry: one input is one text.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const kv::Tokenizer byte_level[] = {bpe("gpt-2"), bpe("smollm"), bpe("llama-bpe")};
  static const kv::Tokenizer sentencepiece = spm();
  const std::string text(reinterpret_cast<const char*>(data), size);
  for (const kv::Tokenizer& tokenizer : byte_level) check_round_trip(tokenizer, text, text);
  check_round_trip(sentencepiece, text, marks_to_spaces(text));
  return 0;
}
