// SentencePiece: merges by score, byte fallback, and the leading space.
#include <catch2/catch_test_macros.hpp>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "kv/check.hpp"
#include "kv/model/tokenizer.hpp"
#include "support/toy_vocabulary.hpp"

using kv::Special;
using kv::Tokenizer;
using kv_test::add_token;
using kv_test::toy_spm;
using Ids = std::vector<kv::TokenId>;

namespace {

constexpr kv::TokenId kBos = 1;
constexpr kv::TokenId kByte0 = 3;  // the token of byte b is kByte0 + b

// Pieces from 259: _ 259, u 260, s 261, e 262, r 263, us 264, er 265, user 266, _user 267.
kv::TokenizerData user_vocabulary() {
  return toy_spm({{"_", -10},
                  {"u", -11},
                  {"s", -12},
                  {"e", -13},
                  {"r", -14},
                  {"us", -2},
                  {"er", -3},
                  {"user", -4},
                  {"_user", -5}});
}

// The textbook loop on one character per byte, with scores by piece.
std::vector<std::string> merge_slowly(const std::string& text,
                                      const std::map<std::string, float>& score_of) {
  std::vector<std::string> symbols;
  for (char c : text) symbols.emplace_back(1, c);
  while (true) {
    bool found = false;
    float best_score = 0;
    std::size_t best = 0;
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto score = score_of.find(symbols[i] + symbols[i + 1]);
      if (score == score_of.end() || (found && score->second <= best_score)) continue;
      found = true;
      best_score = score->second;
      best = i;
    }
    if (!found) return symbols;
    symbols[best] += symbols[best + 1];
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

}  // namespace

TEST_CASE("sentencepiece: the pair whose token scores highest merges first", "[tokenizer][spm]") {
  kv::TokenizerData data = toy_spm({{"a", 0}, {"b", 0}, {"c", 0}, {"ab", -2}, {"bc", -1}});
  data.add_space_prefix = false;
  CHECK(Tokenizer(data).encode("abc") == Ids{kBos, 259, 263});
  data.scores[262] = -0.5f;  // now "ab"
  CHECK(Tokenizer(data).encode("abc") == Ids{kBos, 262, 261});
  data.scores[262] = -1;  // a tie: the leftmost
  CHECK(Tokenizer(data).encode("abc") == Ids{kBos, 262, 261});
}

TEST_CASE("sentencepiece: the heap gives what the textbook loop gives", "[tokenizer][spm]") {
  std::mt19937 random(5);
  for (int round = 0; round < 60; ++round) {
    kv::TokenizerData data = toy_spm({{"a", 0}, {"b", 0}, {"c", 0}});
    data.add_space_prefix = false;
    data.add_bos = false;
    std::map<std::string, float> score_of;
    while (score_of.size() < 15) {
      std::string piece(2 + random() % 4, ' ');
      for (char& c : piece) c = static_cast<char>('a' + random() % 3);
      const float score = -static_cast<float>(random() % 6);  // ties are frequent
      if (score_of.emplace(piece, score).second)
        add_token(data, piece, kv::TokenType::normal, score);
    }
    const Tokenizer tokenizer(data);
    for (int i = 0; i < 20; ++i) {
      std::string text(1 + random() % 30, ' ');
      for (char& c : text) c = static_cast<char>('a' + random() % 3);
      std::vector<std::string> pieces;
      for (kv::TokenId id : tokenizer.encode(text)) pieces.emplace_back(tokenizer.piece(id));
      INFO("text " << text);
      REQUIRE(pieces == merge_slowly(text, score_of));
    }
  }
}

TEST_CASE("sentencepiece: the leading space stands at the very start only", "[tokenizer][spm]") {
  kv::TokenizerData data = user_vocabulary();
  const kv::TokenId start = add_token(data, "<|im_start|>", kv::TokenType::control);
  const Tokenizer tokenizer(data);
  CHECK(tokenizer.encode("user") == Ids{kBos, 267});
  CHECK(tokenizer.encode(" user") == Ids{kBos, 259, 267});
  CHECK(tokenizer.encode("<|im_start|>user", Special::on) == Ids{kBos, start, 266});
  CHECK(tokenizer.encode("user<|im_start|>user", Special::on) == Ids{kBos, 267, start, 266});
  CHECK(tokenizer.encode("<|im_start|> user", Special::on) == Ids{kBos, start, 267});
  CHECK(tokenizer.encode_continuation("user") == Ids{266});
  CHECK(tokenizer.encode_continuation("").empty());
}

TEST_CASE("sentencepiece: an empty text is BOS alone, without a space", "[tokenizer][spm]") {
  kv::TokenizerData data = user_vocabulary();
  CHECK(Tokenizer(data).encode("") == Ids{kBos});
  data.add_eos = true;
  CHECK(Tokenizer(data).encode("") == Ids{kBos, 2});
  data.add_bos = false;
  CHECK(Tokenizer(data).encode("user") == Ids{267, 2});
}

TEST_CASE("sentencepiece: a model without the leading space gets none", "[tokenizer][spm]") {
  kv::TokenizerData data = user_vocabulary();
  data.add_space_prefix = false;
  const Tokenizer tokenizer(data);
  CHECK(tokenizer.encode("user") == Ids{kBos, 266});
  CHECK(tokenizer.encode(" user") == Ids{kBos, 267});
  CHECK(tokenizer.decode(Ids{kBos, 267}) == " user");  // nothing was added, nothing is taken
}

TEST_CASE("sentencepiece: decode takes one space away, only right after the first BOS",
          "[tokenizer][spm]") {
  const Tokenizer tokenizer(user_vocabulary());
  CHECK(tokenizer.decode(Ids{kBos, 267}) == "user");
  CHECK(tokenizer.decode(Ids{kBos, 259, 267}) == " user");
  CHECK(tokenizer.decode(Ids{kBos, 266, 267}) == "user user");
  CHECK(tokenizer.decode(Ids{267}) == " user");  // goes on from other text
  CHECK(tokenizer.decode(Ids{266, kBos, 267}) == "user user");
  CHECK(tokenizer.decode(Ids{kBos}).empty());
  CHECK(tokenizer.decode(Ids{}).empty());
}

TEST_CASE("sentencepiece: the space of a user-defined token at the start is its own",
          "[tokenizer][spm]") {
  kv::TokenizerData data = user_vocabulary();
  const kv::TokenId two_spaces = add_token(data, "  ", kv::TokenType::user_defined);
  const Tokenizer tokenizer(data);
  CHECK(tokenizer.encode("  user") == Ids{kBos, two_spaces, 266});
  CHECK(tokenizer.decode(Ids{kBos, two_spaces, 266}) == "  user");
}

TEST_CASE("sentencepiece: characters without a token become their bytes", "[tokenizer][spm]") {
  const Tokenizer tokenizer(user_vocabulary());
  // A llama, as in the reported fault: F0 9F A6 99.
  CHECK(tokenizer.encode("user \U0001f999s") ==
        Ids{kBos, 267, 259, kByte0 + 0xf0, kByte0 + 0x9f, kByte0 + 0xa6, kByte0 + 0x99, 261});
  // Without a token for the space itself, its byte 20 stands for it, not those of U+2581.
  CHECK(Tokenizer(toy_spm()).encode("x") == Ids{kBos, kByte0 + ' ', kByte0 + 'x'});
}

TEST_CASE("sentencepiece: without byte tokens a run of strange characters is one unknown",
          "[tokenizer][spm]") {
  kv::TokenizerData data;
  data.model = "llama";
  data.unk = add_token(data, "<unk>", kv::TokenType::unknown);
  add_token(data, "a");
  data.add_bos = false;
  data.add_space_prefix = false;
  const Tokenizer tokenizer(data);
  CHECK(tokenizer.encode("axyaz") == Ids{1, 0, 1, 0});
  CHECK(tokenizer.decode(Ids{1, 0, 1}) == "a\uFFFDa");
}

TEST_CASE("sentencepiece: text never becomes a byte, control, unknown or unused token",
          "[tokenizer][spm]") {
  kv::TokenizerData data = toy_spm({{"<", 0}, {"s", 0}, {">", 0}, {"<s", 0}});
  const kv::TokenId unused = add_token(data, "s>", kv::TokenType::unused, 9);
  data.add_space_prefix = false;
  const Tokenizer tokenizer(data);
  CHECK(tokenizer.encode("<s>") == Ids{kBos, 262, 261});
  CHECK(tokenizer.encode("s>") == Ids{kBos, 260, 261});
  CHECK(tokenizer.decode(Ids{unused}) == "s>");
  // The spelling of a byte token is text, too.
  CHECK(tokenizer.decode(tokenizer.encode("<0x41>")) == "<0x41>");
  CHECK(tokenizer.encode("<0x41>")[1] != kByte0 + 0x41);
}

TEST_CASE("sentencepiece: every text comes back, but U+2581 comes back as a space",
          "[tokenizer][spm]") {
  const Tokenizer tokenizer(user_vocabulary());
  const std::string with_nul("a\0b", 3);
  for (const std::string& text :
       {std::string(), std::string(" "), std::string("  user  user "), std::string("a\xe2\x82"),
        std::string("\xff"), with_nul, std::string("caf\u00e9 \U0001f600\n")})
    CHECK(tokenizer.decode(tokenizer.encode(text)) == text);
  CHECK(tokenizer.decode(tokenizer.encode("a\u2581b")) == "a b");
  std::mt19937 random(3);
  for (int i = 0; i < 500; ++i) {
    std::string text(random() % 60, '\0');
    for (char& c : text) c = static_cast<char>(random());
    if (text.find(kv::kSpaceMark) != std::string::npos) continue;
    REQUIRE(tokenizer.decode(tokenizer.encode(text)) == text);
  }
}

TEST_CASE("sentencepiece: long runs need neither a deep stack nor quadratic time",
          "[tokenizer][spm]") {
  const Tokenizer tokenizer(toy_spm({{"_", 0}, {"A", 0}, {"AA", -1}, {"__", -2}}));
  CHECK(tokenizer.encode(std::string(1 << 20, 'A')).size() == 2 + (1 << 19));
  CHECK(tokenizer.encode(std::string((1 << 20) - 1, ' ')).size() == 1 + (1 << 19));
  CHECK(tokenizer.encode(std::string(1 << 20, '\xff')).size() == 2 + (1 << 20));
}
