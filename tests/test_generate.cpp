// The loop around the decoder, driven with made-up logits: when it stops and what it records.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <string>
#include <vector>

#include "kv/generate.hpp"

using Catch::Matchers::ContainsSubstring;

namespace {

constexpr kv::TokenId kEnd = 256;

// One token per byte, and an end-of-text token.
kv::Tokenizer byte_tokenizer(kv::TokenType end_type = kv::TokenType::control) {
  kv::TokenizerData data;
  data.model = "llama";
  data.scores.assign(257, 0.0f);
  for (int byte = 0; byte < 256; ++byte) {
    constexpr char kHex[] = "0123456789ABCDEF";
    data.tokens.push_back(std::string("<0x") + kHex[byte / 16] + kHex[byte % 16] + ">");
    data.types.push_back(static_cast<std::int32_t>(kv::TokenType::byte));
  }
  data.tokens.emplace_back("</s>");
  data.types.push_back(static_cast<std::int32_t>(end_type));
  data.eos = kEnd;
  data.add_bos = false;
  data.add_space_prefix = false;
  return kv::Tokenizer(std::move(data));
}

std::vector<float> logits_for(kv::TokenId token) {
  std::vector<float> logits(257, 0.0f);
  logits[token] = 1.0f;
  return logits;
}

kv::GenerateOptions options(std::int64_t max_tokens, std::int64_t context) {
  kv::GenerateOptions o;
  o.max_tokens = max_tokens;
  o.context = context;
  return o;
}

// Answers every step with `next` until the run is done.
kv::Generation drive(kv::GenerationRun run, const std::string& next) {
  std::size_t i = 0;
  while (!run.done()) {
    run.work()->rows += 1;
    run.push(logits_for(static_cast<unsigned char>(next[i++ % next.size()])));
  }
  return run.finish();
}

}  // namespace

TEST_CASE("generation: prompt and output never exceed the context", "[generate][limit]") {
  const kv::Tokenizer tokenizer = byte_tokenizer();
  // context 64: what a prompt leaves.
  for (const auto& [prompt_len, expected] : {std::pair{1, 63}, {60, 4}, {63, 1}, {64, 0}}) {
    const std::vector<kv::TokenId> prompt(prompt_len, 'a');
    kv::GenerationRun run(tokenizer, prompt, options(1000, 64));
    CHECK(run.max_seq_len() == 64);
    const kv::Generation result = drive(std::move(run), "b");
    CHECK(static_cast<int>(result.output.size()) == expected);
    CHECK(result.finish == kv::FinishReason::length);
    CHECK_THAT(result.finish_detail, ContainsSubstring("context"));
  }
  CHECK_THROWS_AS(kv::GenerationRun(tokenizer, std::vector<kv::TokenId>(65, 'a'), options(1, 64)),
                  kv::InputError);
  CHECK_THROWS_AS(kv::GenerationRun(tokenizer, {}, options(1, 64)), kv::InputError);
}

TEST_CASE("generation: it ends with the tokens asked for and says so", "[generate]") {
  const kv::Tokenizer tokenizer = byte_tokenizer();
  const kv::Generation result = drive({tokenizer, {'a'}, options(3, 64)}, "xyz!");
  CHECK(result.text == "axyz");
  CHECK(result.output == std::vector<kv::TokenId>{'x', 'y', 'z'});
  CHECK(result.finish == kv::FinishReason::length);
  CHECK_THAT(result.finish_detail, ContainsSubstring("3 tokens"));
}

TEST_CASE("generation: an end-of-text token stops it, is counted and not printed", "[generate]") {
  // Some files give their end token the type of ordinary text.
  const auto type = GENERATE(kv::TokenType::control, kv::TokenType::normal);
  const kv::Tokenizer tokenizer = byte_tokenizer(type);
  kv::GenerateOptions o = options(10, 64);
  std::string streamed;
  o.on_text = [&](std::string_view text) { streamed += text; };
  SECTION("stop") {
    kv::GenerationRun run(tokenizer, {'a'}, o);
    run.push(logits_for('b'));
    CHECK(!run.done());
    run.push(logits_for(kEnd));
    REQUIRE(run.done());
    const kv::Generation result = run.finish();
    CHECK(result.finish == kv::FinishReason::stop);
    CHECK(result.output == std::vector<kv::TokenId>{'b', kEnd});
    CHECK(result.text == "ab");
    CHECK(streamed == "ab");
  }
  SECTION("go on when told to") {
    o.ignore_eos = true;
    kv::GenerationRun run(tokenizer, {'a'}, o);
    run.push(logits_for(kEnd));
    CHECK(!run.done());
  }
}

TEST_CASE("generation: text comes in whole characters, cut ones at the end as U+FFFD",
          "[generate]") {
  const kv::Tokenizer tokenizer = byte_tokenizer();
  kv::GenerateOptions o = options(6, 64);
  std::vector<std::string> pieces;
  o.on_text = [&](std::string_view text) { pieces.emplace_back(text); };
  const kv::Generation result = drive({tokenizer, {'a'}, o}, "\xF0\x9F\x98\x8A\xE2\x82");
  CHECK(pieces == std::vector<std::string>{"a", "\xF0\x9F\x98\x8A", "\xEF\xBF\xBD"});
  CHECK(result.text == "a\xF0\x9F\x98\x8A\xEF\xBF\xBD");
}

TEST_CASE("generation: every step records its own work and prefix", "[generate]") {
  const kv::Tokenizer tokenizer = byte_tokenizer();
  kv::GenerationRun run(tokenizer, {'a', 'b'}, options(3, 64));
  for (int step = 1; step <= 3; ++step) {
    run.work()->rows += step * 10;
    run.push(logits_for('x'));
  }
  const kv::Generation result = run.finish();
  REQUIRE(result.steps.size() == 3);
  for (int i = 0; i < 3; ++i) {
    CHECK(result.steps[i].work.rows == (i + 1) * 10);
    CHECK(result.steps[i].seq_len == 2 + i);
  }
  CHECK(result.work().rows == 60);
}

TEST_CASE("generation: TTFT is the first step, TPOT the mean of the others", "[generate]") {
  kv::Generation result;
  CHECK(result.ttft_ms() == 0.0);
  CHECK(result.tpot_ms() == 0.0);
  CHECK(result.tokens_per_second() == 0.0);
  for (const double ms : {100.0, 4.0, 6.0}) {
    kv::Step step;
    step.ms = ms;
    result.steps.push_back(step);
  }
  CHECK(result.ttft_ms() == 100.0);
  CHECK(result.tpot_ms() == 5.0);
  CHECK(result.tokens_per_second() == 3.0 / 0.110);
}

TEST_CASE("generation: logits are kept for steps spread evenly, the first among them",
          "[generate]") {
  const kv::Tokenizer tokenizer = byte_tokenizer();
  const auto num_compared = GENERATE(0, 1, 3, 7, 20, 100);
  kv::GenerateOptions o = options(20, 64);
  o.num_compared = num_compared;
  const kv::Generation result = drive({tokenizer, {'a'}, o}, "x");
  int kept = 0, gap = 0, largest_gap = 0;
  for (const kv::Step& step : result.steps) {
    CHECK((step.logits.empty() || step.logits.size() == 257));
    kept += !step.logits.empty();
    gap = step.logits.empty() ? gap + 1 : 0;
    largest_gap = std::max(largest_gap, gap);
  }
  CHECK(kept == std::min(num_compared, 20));
  if (num_compared > 0) {
    CHECK(!result.steps[0].logits.empty());
    CHECK(largest_gap <= 20 / num_compared);
  }
}

TEST_CASE("generation: NaN logits are an error, not a token", "[generate]") {
  const kv::Tokenizer tokenizer = byte_tokenizer();
  kv::GenerationRun run(tokenizer, {'a'}, options(3, 64));
  std::vector<float> logits(257, std::numeric_limits<float>::quiet_NaN());
  CHECK_THROWS(run.push(logits));
}
