// Tokens back to text as a stream: never a part of a character.
#include <catch2/catch_test_macros.hpp>
#include <random>
#include <string>
#include <vector>

#include "kv/check.hpp"
#include "kv/model/tokenizer.hpp"
#include "kv/model/utf8.hpp"
#include "support/toy_vocabulary.hpp"

using kv::StreamDecoder;
using kv::to_valid_utf8;
using kv::Tokenizer;
using kv_test::add_token;
using kv_test::toy_bpe;
using kv_test::toy_spm;
using Ids = std::vector<kv::TokenId>;
using Texts = std::vector<std::string>;

namespace {

// What each push gives, and finish() last.
Texts stream(const Tokenizer& tokenizer, const Ids& ids) {
  StreamDecoder decoder(tokenizer);
  Texts texts;
  for (kv::TokenId id : ids) texts.push_back(decoder.push(id));
  texts.push_back(decoder.finish());
  return texts;
}

// A vocabulary of the given pieces (bytes), after the 259 tokens of toy_bpe.
Tokenizer with_pieces(const Texts& pieces) {
  kv::TokenizerData data = toy_bpe();
  for (const std::string& piece : pieces) {
    std::string spelling;
    for (char c : piece) spelling += kv::byte_level_character(static_cast<unsigned char>(c));
    add_token(data, spelling);
  }
  return Tokenizer(data);
}

const std::string kBad = "\uFFFD";

}  // namespace

TEST_CASE("to_valid_utf8: valid text is unchanged", "[utf8]") {
  for (const std::string& text :
       {std::string(), std::string("a\0b", 3), std::string("\u007f\u0080\u07ff\u0800\ud7ff\ue000"),
        std::string("\uffff\U00010000\U0010ffff")})
    CHECK(to_valid_utf8(text) == text);
}

TEST_CASE("to_valid_utf8: ill-formed parts are replaced as in the Unicode Standard's examples",
          "[utf8]") {
  const auto bad = [](int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += kBad;
    return text;
  };
  // Tables 3-8 to 3-11 of chapter 3: overlong forms, surrogates, other bytes, cut characters.
  CHECK(to_valid_utf8("\xc0\xaf\xe0\x80\xbf\xf0\x81\x82\x41") == bad(8) + "A");
  CHECK(to_valid_utf8("\xed\xa0\x80\xed\xbf\xbf\xed\xaf\x41") == bad(8) + "A");
  CHECK(to_valid_utf8("\xf4\x91\x92\x93\xff\x41\x80\xbf\x42") == bad(5) + "A" + bad(2) + "B");
  CHECK(to_valid_utf8("\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41") == bad(4) + "A");
  CHECK(to_valid_utf8("\xe2\x82") == bad(1));
}

TEST_CASE("stream: a character split over tokens comes out whole", "[detokenizer]") {
  const Tokenizer tokenizer = with_pieces({"\xf0\x9f", "\x98\x8a", "\xe2\x82", " x", "\xac!"});
  CHECK(stream(tokenizer, {259, 260}) == Texts{"", "\U0001f60a", ""});
  CHECK(stream(tokenizer, {0xf0, 0x9f, 0x98, 0x8a}) == Texts{"", "", "", "\U0001f60a", ""});
  CHECK(stream(tokenizer, {'a', 261, 263}) == Texts{"a", "", "\u20ac!", ""});
}

TEST_CASE("stream: bytes that cannot become a character are given up at once", "[detokenizer]") {
  const Tokenizer tokenizer = with_pieces({"\xf0\x9f", "\x98\x8a", "\xe2\x82", " x"});
  CHECK(stream(tokenizer, {261, 262}) == Texts{"", kBad + " x", ""});
  CHECK(stream(tokenizer, {0xff}) == Texts{kBad, ""});
  CHECK(stream(tokenizer, {0x80, 'a'}) == Texts{kBad, "a", ""});
  CHECK(stream(tokenizer, {0xe2, 0xe2, 0x82, 0xac}) == Texts{"", kBad, "", "\u20ac", ""});
}

TEST_CASE("stream: finish gives up a cut character and starts anew", "[detokenizer]") {
  const Tokenizer tokenizer = with_pieces({"\xf0\x9f\x98"});
  CHECK(stream(tokenizer, {'a', 259}) == Texts{"a", "", kBad});
  StreamDecoder decoder(tokenizer);
  CHECK(decoder.push(259).empty());
  CHECK(decoder.finish() == kBad);
  CHECK(decoder.finish().empty());
  CHECK(decoder.push(0x8a) == kBad);  // does not complete what was before
}

TEST_CASE("stream: control tokens show nothing and do not split a character", "[detokenizer]") {
  const Tokenizer tokenizer = with_pieces({});
  CHECK(stream(tokenizer, {257, 'a', 0xc3, 258, 0xa9}) == Texts{"", "a", "", "", "\u00e9", ""});
}

TEST_CASE("stream: the space right after the first BOS is left out, as decode does",
          "[detokenizer][spm]") {
  const Tokenizer tokenizer(toy_spm({{"_a", 0}, {"_", -1}}));
  CHECK(stream(tokenizer, {1, 259, 259}) == Texts{"", "a", " a", ""});
  CHECK(stream(tokenizer, {259}) == Texts{" a", ""});
  CHECK(stream(tokenizer, {1, 1, 259}) == Texts{"", "", " a", ""});
  StreamDecoder decoder(tokenizer);
  decoder.push(1);
  decoder.finish();
  CHECK(decoder.push(259) == " a");  // a new stream, without BOS
  decoder.finish();
  decoder.push(1);
  CHECK(decoder.push(259) == "a");  // and one with
}

TEST_CASE("stream: an id outside the vocabulary is refused and changes nothing", "[detokenizer]") {
  const Tokenizer tokenizer = with_pieces({});
  StreamDecoder decoder(tokenizer);
  decoder.push(0xc3);
  CHECK_THROWS_AS(decoder.push(259), std::invalid_argument);
  CHECK(decoder.push(0xa9) == "\u00e9");
}

TEST_CASE("stream: whatever the tokens, the parts are valid and join to the whole",
          "[detokenizer]") {
  std::mt19937 random(17);
  // Mostly lead and continuation bytes, so that characters are often cut.
  const std::string bytes = "a \x80\x8a\x98\x9f\xa9\xbf\xc3\xe0\xe2\xed\xf0\xf4\xff";
  for (int round = 0; round < 200; ++round) {
    Texts pieces;
    for (int i = 0; i < 20; ++i) {
      std::string piece(1 + random() % 5, ' ');
      for (char& c : piece) c = bytes[random() % bytes.size()];
      // Single bytes are tokens already; a repeated piece would be refused.
      if (piece.size() > 1 && std::find(pieces.begin(), pieces.end(), piece) == pieces.end())
        pieces.push_back(piece);
    }
    const Tokenizer tokenizer = with_pieces(pieces);
    Ids ids(random() % 40);
    for (kv::TokenId& id : ids) id = static_cast<kv::TokenId>(259 + random() % pieces.size());
    std::string joined;
    for (const std::string& text : stream(tokenizer, ids)) {
      REQUIRE(to_valid_utf8(text) == text);
      joined += text;
    }
    REQUIRE(joined == to_valid_utf8(tokenizer.decode(ids)));
  }
}
