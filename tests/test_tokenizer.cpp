// What both kinds of tokenizer share: control tokens, ends, hostile vocabularies, loading.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "kv/check.hpp"
#include "kv/model/tokenizer.hpp"
#include "support/gguf_writer.hpp"
#include "support/toy_vocabulary.hpp"

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
using kv::Special;
using kv::Tokenizer;
using kv::TokenizerData;
using kv::TokenType;
using kv_test::add_token;
using kv_test::toy_bpe;
using kv_test::toy_spm;
using Ids = std::vector<kv::TokenId>;

TEST_CASE("control tokens: their spelling is ordinary text unless special parsing is on",
          "[tokenizer][special]") {
  const std::string text = "A<|im_end|>B";
  SECTION("byte-level BPE") {
    const Tokenizer tokenizer(toy_bpe());
    const Ids off = tokenizer.encode(text);
    CHECK(off.size() == text.size());
    for (kv::TokenId id : off) CHECK(tokenizer.type(id) == TokenType::normal);
    CHECK(tokenizer.decode(off) == text);
    CHECK(tokenizer.encode(text, Special::on) == Ids{'A', 258, 'B'});
  }
  SECTION("byte-level BPE whose merges would spell the control token") {
    TokenizerData data = toy_bpe({{"<", "|"}, {"|", ">"}});
    data.merges.emplace_back("<| |>");
    const kv::TokenId control = add_token(data, "<||>", TokenType::control);
    const Tokenizer tokenizer(data);
    CHECK(tokenizer.encode("<||>") == Ids{259, 260});
    CHECK(tokenizer.encode("<||>", Special::on) == Ids{control});
  }
  SECTION("sentencepiece") {
    TokenizerData data = toy_spm({{"A", 0}, {"B", 0}});
    const kv::TokenId end = add_token(data, "<|im_end|>", TokenType::control, 99);
    const Tokenizer tokenizer(data);
    const Ids off = tokenizer.encode(text);
    for (std::size_t i = 1; i < off.size(); ++i)
      CHECK(tokenizer.type(off[i]) != TokenType::control);
    CHECK(tokenizer.decode(off) == text);
    CHECK(tokenizer.encode_continuation(text, Special::on) == Ids{259, end, 260});
    CHECK(tokenizer.encode("<s>", Special::on) == Ids{1, 1});
  }
}

TEST_CASE("control tokens: decode leaves them out, or spells them when asked",
          "[tokenizer][special]") {
  const Tokenizer tokenizer(toy_bpe());
  const Ids ids = {257, 'A', 258};
  CHECK(tokenizer.decode(ids) == "A");
  CHECK(tokenizer.decode(ids, Special::on) == "<|im_start|>A<|im_end|>");
  CHECK(tokenizer.piece(258) == "<|im_end|>");
  CHECK(tokenizer.find("<|im_end|>") == 258);
  CHECK_FALSE(tokenizer.find("<|im_end|"));
}

TEST_CASE("fixed tokens: the leftmost and longest one is taken", "[tokenizer][special]") {
  TokenizerData data = toy_bpe();
  const kv::TokenId longer = add_token(data, "<|im_end|>>", TokenType::control);
  const kv::TokenId inner = add_token(data, "im_", TokenType::control);
  const kv::TokenId empty = add_token(data, "", TokenType::control);
  const Tokenizer tokenizer(data);
  CHECK(tokenizer.encode("<|im_end|>>>", Special::on) == Ids{longer, '>'});
  CHECK(tokenizer.encode("<|im_end|>", Special::on) == Ids{258});
  CHECK(tokenizer.encode("<|im_<|im_end|><|im_end|>", Special::on) ==
        Ids{'<', '|', inner, 258, 258});
  CHECK(tokenizer.decode(Ids{empty}, Special::on).empty());
  CHECK(tokenizer.encode(std::string(2, '\0'), Special::on) == Ids{0, 0});
}

TEST_CASE("user-defined tokens: found in ordinary text, whole, before any merge",
          "[tokenizer][special]") {
  TokenizerData data = toy_bpe({{"x", "a"}});
  const kv::TokenId user = add_token(data, "a b", TokenType::user_defined);
  const Tokenizer tokenizer(data);
  CHECK(tokenizer.encode("xa b") == Ids{'x', user});
  CHECK(tokenizer.encode("xa c") == Ids{259, ' ', 'c'});
  CHECK(tokenizer.decode(Ids{user}) == "a b");
}

TEST_CASE("is_end: EOS, EOT and control tokens with a usual name", "[tokenizer]") {
  TokenizerData data = toy_bpe();
  const kv::TokenId eot = add_token(data, "<eot-of-this-model>", TokenType::control);
  const kv::TokenId text = add_token(data, "<|eot_id|>", TokenType::normal);
  data.eos = 257;
  data.eot = eot;
  const Tokenizer tokenizer(data);
  for (kv::TokenId id : {256, 257, 258, eot}) CHECK(tokenizer.is_end(id));
  for (kv::TokenId id : {65, text, -1, tokenizer.vocab_size()}) CHECK_FALSE(tokenizer.is_end(id));
  CHECK(tokenizer.eos() == 257);
  CHECK_FALSE(tokenizer.bos());
}

TEST_CASE("ids outside the vocabulary: refused as the caller's mistake", "[tokenizer]") {
  const Tokenizer tokenizer(toy_bpe());
  CHECK(tokenizer.vocab_size() == 259);
  for (kv::TokenId id : {-1, 259}) {
    CHECK_THROWS_AS(tokenizer.decode(Ids{id}), std::invalid_argument);
    CHECK_THROWS_AS(tokenizer.piece(id), std::invalid_argument);
    CHECK_THROWS_AS(tokenizer.type(id), std::invalid_argument);
  }
}

TEST_CASE("hostile vocabularies: refused in one line that names the key", "[tokenizer][hostile]") {
  struct Case {
    const char* named;  // the message must hold this
    std::function<void(TokenizerData&)> spoil;
  };
  const auto refused = [](const TokenizerData& good, const std::vector<Case>& cases) {
    REQUIRE_NOTHROW(Tokenizer(good));
    for (const Case& c : cases) {
      TokenizerData data = good;
      c.spoil(data);
      INFO(c.named);
      try {
        Tokenizer tokenizer(data);
        FAIL_CHECK("was accepted");
      } catch (const kv::InputError& error) {
        CHECK_THAT(error.what(), StartsWith("tokenizer.ggml.") && ContainsSubstring(c.named));
        CHECK_THAT(error.what(), !ContainsSubstring("\n"));
      }
    }
  };
  SECTION("either kind") {
    const std::vector<Case> cases = {
        {"model: unknown kind 'bert'", [](auto& d) { d.model = "bert"; }},
        {"tokens: the vocabulary has no", [](auto& d) { d.tokens.clear(); }},
        {"token_type: has 3 entries", [](auto& d) { d.types.resize(3); }},
        {"type 7", [](auto& d) { d.types[5] = 7; }},
        {"type 0", [](auto& d) { d.types[5] = 0; }},
        {"type -1", [](auto& d) { d.types[5] = -1; }},
        {"repeats token 10", [](auto& d) { d.tokens[20] = d.tokens[10]; }},
        {"bos_token_id: id 9999", [](auto& d) { d.bos = 9999; }},
        {"bos_token_id: id -1", [](auto& d) { d.bos = -1; }},
        {"eos_token_id: id 259", [](auto& d) { d.eos = 259; }},
        {"eot_token_id: id", [](auto& d) { d.eot = 9999; }},
        {"unknown_token_id: id", [](auto& d) { d.unk = 9999; }},
        {"bos_token_id: missing", [](auto& d) { d.add_bos = true, d.bos.reset(); }},
        {"eos_token_id: missing", [](auto& d) { d.add_eos = true, d.eos.reset(); }},
    };
    refused(toy_bpe(), cases);
    refused(toy_spm(), cases);
  }
  SECTION("byte-level BPE") {
    const auto merge = [](const char* text) {
      return [text](TokenizerData& d) { d.merges.emplace_back(text); };
    };
    refused(toy_bpe({{"a", "b"}}), {{"pre: unknown rule 'x'", [](auto& d) { d.pre = "x"; }},
                                    {"pre: unknown rule ''", [](auto& d) { d.pre = ""; }},
                                    {"merge 1 ('ab') is not two tokens", merge("ab")},
                                    {"merge 1 ('') is not two tokens", merge("")},
                                    {"merge 1 (' ') is not two tokens", merge(" ")},
                                    {"merge 1 ('a ') is not two tokens", merge("a ")},
                                    {"merge 1 (' a') is not two tokens", merge(" a")},
                                    {"merge 1 ('a b c') is not two tokens", merge("a b c")},
                                    {"names 'zz'", merge("zz b")},
                                    {"names 'yy'", merge("b yy")},
                                    {"names 'ba'", merge("b a")},
                                    {"type 6", [](auto& d) { d.types[65] = 6; }}});
  }
  SECTION("sentencepiece") {
    refused(toy_spm({{"a", -1}}),
            {{"scores: has 0 entries for 260", [](auto& d) { d.scores.clear(); }},
             {"scores: has 261 entries", [](auto& d) { d.scores.push_back(0); }},
             {"scores: the score of token 259 ('a') is not a number",
              [](auto& d) { d.scores[259] = std::nanf(""); }},
             {"no token for byte 65", [](auto& d) { d.types[3 + 65] = 1, d.unk.reset(); }},
             {"not spelled like <0x1F>", [](auto& d) { d.tokens[3 + 65] = "<0x4G>"; }},
             {"same byte as token",
              [](auto& d) { d.tokens[3 + 0xAB] = "<0xab>", d.tokens[3] = "<0xAB>"; }}});
  }
}

TEST_CASE("odd vocabularies: tolerated as documented", "[tokenizer][hostile]") {
  TokenizerData data = toy_bpe({{"a", "a"}, {"a", "b"}});
  data.merges.emplace_back("a a");  // again, later: the first counts
  add_token(data, "");
  add_token(data, "");
  const kv::TokenId literal = add_token(data, "a b");  // a space is not of the byte alphabet
  const Tokenizer tokenizer(data);
  CHECK(tokenizer.encode("aab") == Ids{259, 'b'});
  CHECK(tokenizer.decode(Ids{literal}) == "a b");
  CHECK(tokenizer.decode(Ids{261, 262}).empty());
  data.types.clear();  // then all tokens are normal
  CHECK(Tokenizer(data).type(256) == TokenType::normal);
}

namespace {

kv_test::GgufWriter writer_of(const TokenizerData& data) {
  kv_test::GgufWriter writer;
  writer.string("general.architecture", "llama");
  writer.string("tokenizer.ggml.model", data.model);
  if (!data.pre.empty()) writer.string("tokenizer.ggml.pre", data.pre);
  writer.strings("tokenizer.ggml.tokens", data.tokens);
  writer.i32s("tokenizer.ggml.token_type", data.types);
  if (!data.scores.empty()) writer.floats("tokenizer.ggml.scores", data.scores);
  if (data.model == "gpt2") writer.strings("tokenizer.ggml.merges", data.merges);
  if (data.bos) writer.u32("tokenizer.ggml.bos_token_id", static_cast<std::uint32_t>(*data.bos));
  if (data.eos) writer.u32("tokenizer.ggml.eos_token_id", static_cast<std::uint32_t>(*data.eos));
  return writer;
}

Tokenizer load(const kv_test::GgufWriter& writer) {
  return kv::load_tokenizer(*kv::GgufFile::from_memory(writer.bytes(), "toy.gguf"));
}

}  // namespace

TEST_CASE("load_tokenizer: reads both kinds from a file", "[tokenizer][gguf]") {
  const Tokenizer bpe = load(writer_of(toy_bpe({{"a", "b"}})));
  CHECK(bpe.encode("abc") == Ids{259, 'c'});
  CHECK(bpe.eos() == 256);
  const Tokenizer spm = load(writer_of(toy_spm({{"_", 0}, {"h", 0}, {"_h", -1}})));
  CHECK(spm.encode("h") == Ids{1, 261});
  auto writer = writer_of(toy_spm({{"_", 0}, {"h", 0}, {"_h", -1}}));
  writer.boolean("tokenizer.ggml.add_space_prefix", false);
  writer.boolean("tokenizer.ggml.add_bos_token", false);
  writer.boolean("tokenizer.ggml.add_eos_token", true);
  CHECK(load(writer).encode("h") == Ids{260, 2});
}

TEST_CASE("load_tokenizer: errors name the file and the key", "[tokenizer][gguf][hostile]") {
  const auto refused = [](kv_test::GgufWriter writer, const char* key) {
    INFO(key);
    try {
      load(writer);
      FAIL_CHECK("was accepted");
    } catch (const kv::InputError& error) {
      CHECK_THAT(error.what(), StartsWith("toy.gguf: ") && ContainsSubstring(key));
    }
  };
  for (const char* key : {"tokenizer.ggml.model", "tokenizer.ggml.pre", "tokenizer.ggml.tokens",
                          "tokenizer.ggml.merges"})
    refused(writer_of(toy_bpe()).erase(key), key);
  refused(writer_of(toy_spm()).erase("tokenizer.ggml.scores"), "tokenizer.ggml.scores");
  refused(writer_of(toy_bpe()).i32("tokenizer.ggml.eos_token_id", -1), "eos_token_id");
  refused(writer_of(toy_bpe()).u64("tokenizer.ggml.eos_token_id", 1ull << 32), "eos_token_id");
  refused(writer_of(toy_bpe()).u32("tokenizer.ggml.eos_token_id", 259), "eos_token_id");
  refused(writer_of(toy_bpe()).string("tokenizer.ggml.eos_token_id", "x"), "eos_token_id");
  refused(writer_of(toy_bpe()).u32("tokenizer.ggml.tokens", 1), "tokenizer.ggml.tokens");
}
