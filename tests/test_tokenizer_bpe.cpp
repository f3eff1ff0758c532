// Byte-level BPE: how text is cut into words, and how the bytes of a word are merged.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "kv/check.hpp"
#include "kv/model/tokenizer.hpp"
#include "kv/model/tokenizer_pre.hpp"
#include "support/toy_vocabulary.hpp"

using Catch::Matchers::ContainsSubstring;
using kv::Tokenizer;
using kv_test::add_merge;
using kv_test::add_token;
using kv_test::toy_bpe;
using Ids = std::vector<kv::TokenId>;
using Words = std::vector<std::string>;

namespace {

Words split(const std::string& rule, const std::string& text) {
  const kv::PreTokenizer pre_tokenizer(rule);
  Words words;
  for (std::string_view word : pre_tokenizer.split(text)) words.emplace_back(word);
  return words;
}

std::string random_bytes(std::mt19937& random, std::size_t max_bytes) {
  std::string text(random() % (max_bytes + 1), '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

// The textbook loop: search the whole word for the best pair, merge its leftmost place, repeat.
Words merge_slowly(const std::string& word, const std::vector<std::string>& merges) {
  std::map<std::string, std::size_t> rank_of;
  for (std::size_t i = 0; i < merges.size(); ++i) rank_of.emplace(merges[i], i);
  Words symbols;
  for (char c : word) symbols.emplace_back(1, c);
  while (true) {
    std::size_t best_rank = std::numeric_limits<std::size_t>::max(), best = 0;
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto found = rank_of.find(symbols[i] + " " + symbols[i + 1]);
      if (found != rank_of.end() && found->second < best_rank) {
        best_rank = found->second;
        best = i;
      }
    }
    if (best_rank == std::numeric_limits<std::size_t>::max()) return symbols;
    symbols[best] += symbols[best + 1];
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

}  // namespace

TEST_CASE("gpt-2 rule: words take one space in front, numbers stay whole", "[tokenizer][bpe]") {
  CHECK(split("gpt-2", "Hello world") == Words{"Hello", " world"});
  CHECK(split("gpt-2", "I'll don't I'LL") == Words{"I", "'ll", " don", "'t", " I", "'", "LL"});
  CHECK(split("gpt-2", "a  b") == Words{"a", " ", " b"});
  CHECK(split("gpt-2", "a \n b  ") == Words{"a", " \n", " b", "  "});
  CHECK(split("gpt-2", "x1234 5!?") == Words{"x", "1234", " 5", "!?"});
  CHECK(split("gpt-2", "Ж\u00e9\u4e01 \u00bd") == Words{"Ж\u00e9\u4e01", " \u00bd"});
  CHECK(split("gpt-2", "").empty());
  CHECK(split("gpt-2", "   ") == Words{"   "});
}

TEST_CASE("smollm rule: every digit is a word of its own, before anything else",
          "[tokenizer][bpe]") {
  CHECK(split("smollm", "a12 3") == Words{"a", "1", "2", " ", "3"});
  CHECK(split("smollm", "  7") == Words{"  ", "7"});  // gpt-2 would leave a space with the 7
  CHECK(split("smollm", "\u00bd\u0665x") == Words{"\u00bd", "\u0665", "x"});
  CHECK(split("smollm", "we'll go") == Words{"we", "'ll", " go"});
}

TEST_CASE("llama-bpe rule: digits by threes, line ends stay with the spaces before them",
          "[tokenizer][bpe]") {
  const std::string name = "llama-bpe";
  CHECK(split(name, "1234567") == Words{"123", "456", "7"});
  CHECK(split(name, "a\n\nb") == Words{"a", "\n\n", "b"});
  CHECK(split(name, "I'LL !abc") == Words{"I", "'LL", " !", "abc"});
  CHECK(split(name, "!abc") == Words{"!abc"});
  CHECK(split(name, "x  \n\n  y") == Words{"x", "  \n\n", " ", " y"});
  CHECK(split(name, "go?!\r\n\nx") == Words{"go", "?!\r\n\n", "x"});
  for (const char* alias : {"llama3", "llama-v3"})
    CHECK(split(alias, "a\n\n1234") == split(name, "a\n\n1234"));
}

TEST_CASE("split patterns: white space is Unicode's, without U+180E", "[tokenizer][bpe]") {
  // White space would leave its last character to the letter behind it.
  CHECK(split("gpt-2", "\u180e\u180ex") == Words{"\u180e\u180e", "x"});
  CHECK(split("gpt-2", "\u3000\u3000x") == Words{"\u3000", "\u3000", "x"});
  CHECK(split("gpt-2", "\u0085\u0085x") == Words{"\u0085", "\u0085", "x"});
  // Case folds as in Unicode: the long s is an s.
  CHECK(split("llama-bpe", "a'\u017fx") == Words{"a", "'\u017f", "x"});
}

TEST_CASE("pre-tokenizer: bytes that are no character are words of their own", "[tokenizer][bpe]") {
  CHECK(split("gpt-2", "ab\xff cd") == Words{"ab", "\xff", " cd"});
  CHECK(split("gpt-2", "a \xe2\x82") == Words{"a", " ", "\xe2\x82"});
  CHECK(split("gpt-2", "\xff\xfe\xc3") == Words{"\xff\xfe\xc3"});
  CHECK(split("gpt-2", "x\xed\xa0\x80y") == Words{"x", "\xed\xa0\x80", "y"});  // a surrogate
}

TEST_CASE("pre-tokenizer: the words of any bytes are the bytes", "[tokenizer][bpe]") {
  std::mt19937 random(7);
  for (const char* rule : {"gpt-2", "smollm", "llama-bpe"}) {
    const kv::PreTokenizer pre_tokenizer(rule);
    for (int i = 0; i < 300; ++i) {
      const std::string text = random_bytes(random, 40);
      std::string joined;
      for (std::string_view word : pre_tokenizer.split(text)) {
        REQUIRE_FALSE(word.empty());
        joined += word;
      }
      REQUIRE(joined == text);
    }
  }
}

TEST_CASE("unknown pre-tokenizer: the error names it and the known ones", "[tokenizer][bpe]") {
  CHECK_THROWS_WITH(kv::PreTokenizer("gpt-9\n"), ContainsSubstring("gpt-9\\x0a") &&
                                                     ContainsSubstring("smollm") &&
                                                     ContainsSubstring("llama-bpe"));
  CHECK_THROWS_AS(kv::PreTokenizer(""), kv::InputError);
}

TEST_CASE("byte-level BPE: the merge learned first is made first", "[tokenizer][bpe]") {
  CHECK(Tokenizer(toy_bpe({{"b", "c"}, {"a", "b"}})).encode("abc") == Ids{'a', 259});
  CHECK(Tokenizer(toy_bpe({{"a", "b"}, {"b", "c"}})).encode("abc") == Ids{259, 'c'});
  CHECK(Tokenizer(toy_bpe({{"b", "c"}, {"a", "bc"}})).encode("abc") == Ids{260});
}

TEST_CASE("byte-level BPE: of equal pairs the leftmost is merged first", "[tokenizer][bpe]") {
  const Tokenizer tokenizer(toy_bpe({{"a", "a"}, {"aa", "aa"}}));
  CHECK(tokenizer.encode("a") == Ids{'a'});
  CHECK(tokenizer.encode("aaa") == Ids{259, 'a'});
  CHECK(tokenizer.encode("aaaaa") == Ids{260, 'a'});
  CHECK(tokenizer.encode("aaaaaaa") == Ids{260, 259, 'a'});
}

TEST_CASE("byte-level BPE: merges never cross words", "[tokenizer][bpe]") {
  // U+0120 is the space of the byte alphabet.
  const Tokenizer tokenizer(toy_bpe({{"a", "\u0120"}, {"\u0120", "b"}}));
  CHECK(tokenizer.encode("a b") == Ids{'a', 260});
}

TEST_CASE("byte-level BPE: the heap gives what the textbook loop gives", "[tokenizer][bpe]") {
  std::mt19937 random(11);
  for (int round = 0; round < 60; ++round) {
    kv::TokenizerData data = toy_bpe();
    std::vector<std::string> parts = {"a", "b", "c"};
    for (int i = 0; i < 12; ++i) {
      const std::string left = parts[random() % parts.size()],
                        right = parts[random() % parts.size()];
      add_merge(data, left, right);
      parts.push_back(left + right);
    }
    const Tokenizer tokenizer(data);
    for (int i = 0; i < 20; ++i) {
      std::string word(1 + random() % 30, ' ');
      for (char& c : word) c = static_cast<char>('a' + random() % 3);
      Words pieces;
      for (kv::TokenId id : tokenizer.encode(word)) pieces.emplace_back(tokenizer.piece(id));
      INFO("word " << word);
      REQUIRE(pieces == merge_slowly(word, data.merges));
    }
  }
}

TEST_CASE("Llama-3 rule: a word that is a token is not merged", "[tokenizer][bpe]") {
  // The case of the reported fault, made small: the merges only reach "ab" and "c".
  kv::TokenizerData data = toy_bpe({{"a", "b"}});
  const kv::TokenId abc = add_token(data, "abc");
  SECTION("with the flag") {
    data.ignore_merges = true;
    CHECK(Tokenizer(data).encode("abc") == Ids{abc});
    CHECK(Tokenizer(data).encode("abcd") == Ids{259, 'c', 'd'});
  }
  SECTION("without the flag") { CHECK(Tokenizer(data).encode("abc") == Ids{259, 'c'}); }
  SECTION("by default with the rule llama-bpe, which also begins with BOS") {
    data.pre = "llama-bpe";
    data.bos = 256;
    CHECK(Tokenizer(data).encode("abc") == Ids{256, abc});
    data.ignore_merges = false;
    data.add_bos = false;
    CHECK(Tokenizer(data).encode("abc") == Ids{259, 'c'});
  }
  SECTION("a token spelled outside the byte alphabet is not taken for a word") {
    add_token(data, " x");  // the alphabet writes this space as U+0120
    data.ignore_merges = true;
    CHECK(Tokenizer(data).encode(" x") == Ids{' ', 'x'});
  }
  SECTION("a control token is not taken for a word") {
    data.ignore_merges = true;
    data.types[static_cast<std::size_t>(abc)] = static_cast<int>(kv::TokenType::control);
    CHECK(Tokenizer(data).encode("abc") == Ids{259, 'c'});
  }
}

TEST_CASE("byte-level BPE: every text comes back, whatever its bytes", "[tokenizer][bpe]") {
  const Tokenizer tokenizer(toy_bpe({{"a", "b"}, {"\u00c3", "\u00a9"}, {"\u0120", "\u0120"}}));
  const std::string with_nul("a\0b", 3);
  for (const std::string& text :
       {std::string(), std::string("a\xe2\x82"), std::string("\xff"), with_nul,
        std::string("caf\u00e9  \u4e01\U0001f600\n"), std::string("\xed\xa0\x80\xf4\x90\x80\x80")})
    CHECK(tokenizer.decode(tokenizer.encode(text)) == text);
  std::mt19937 random(3);
  for (int i = 0; i < 500; ++i) {
    const std::string text = random_bytes(random, 60);
    REQUIRE(tokenizer.decode(tokenizer.encode(text)) == text);
  }
}

TEST_CASE("byte-level BPE: long runs need neither a deep stack nor quadratic time",
          "[tokenizer][bpe]") {
  // A quadratic step would run into the time limit of the test, a recursive one into the stack.
  for (const char* rule : {"gpt-2", "smollm", "llama-bpe"}) {
    kv::TokenizerData data = toy_bpe({{"A", "A"}, {"AA", "AA"}, {"\u0120", "\u0120"}});
    data.pre = rule;
    data.add_bos = false;
    const Tokenizer tokenizer(data);
    CHECK(tokenizer.encode(std::string(9400, 'A')).size() == 2350);
    CHECK(tokenizer.encode(std::string(1 << 20, 'A')).size() == 1 << 18);
    CHECK(tokenizer.encode(std::string(1 << 20, ' ')).size() == 1 << 19);
    CHECK(tokenizer.encode(std::string(1 << 20, '\xc3')).size() == 1 << 20);
    CHECK(tokenizer.encode(std::string(1 << 20, '7')).size() == 1 << 20);
  }
}

TEST_CASE("byte-level BPE: a byte without a token is refused and named", "[tokenizer][bpe]") {
  // Published vocabularies lack bytes that UTF-8 never uses, and some control characters.
  kv::TokenizerData data = toy_bpe();
  data.tokens[0xff] = "gone";
  const Tokenizer tokenizer(data);
  CHECK(tokenizer.encode("ok") == Ids{'o', 'k'});
  CHECK_THROWS_WITH(tokenizer.encode("ok\xff"),
                    ContainsSubstring("byte 255") && ContainsSubstring("position 2"));
  CHECK_THROWS_AS(tokenizer.encode("\xff"), kv::InputError);

  // A user-defined token stands for its spelling, so this one is no space.
  data.types[' '] = static_cast<int>(kv::TokenType::user_defined);
  CHECK(Tokenizer(data).encode("\u0120") == Ids{' '});
  CHECK_THROWS_AS(Tokenizer(data).encode(" "), kv::InputError);
}
