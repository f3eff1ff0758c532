// Chapter 2 equals chapter 1 on trained models, and trained models say what they should.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <fstream>
#include <sstream>

#include "kv/agreement.hpp"
#include "kv/cache/contiguous.hpp"
#include "support/real_models.hpp"

using Catch::Matchers::StartsWith;

namespace {

kv::GenerateOptions greedy(std::int64_t num_tokens, std::int64_t context) {
  kv::GenerateOptions options;
  options.max_tokens = num_tokens;
  options.context = context;
  options.num_compared = num_tokens;
  return options;
}

kv::Generation cached(const kv::LoadedModel& loaded, const std::string& prompt,
                      const kv::GenerateOptions& options, std::int64_t chunk = 512,
                      kv::KvDType kv_dtype = kv::DType::f32,
                      const kv::Math& math = kv::fast_math()) {
  kv::GenerationRun run(loaded.tokenizer, loaded.tokenizer.encode(prompt), options);
  kv::ContiguousCache cache(loaded.model.config, run.max_seq_len(), kv_dtype);
  if (!run.done())
    run.push(kv::prefill(loaded.model, cache, run.tokens(), chunk, run.work(), math));
  while (!run.done())
    run.push(kv::decode_step(loaded.model, cache, run.tokens(), run.work(), math));
  return run.finish();
}

kv::Generation recomputed(const kv::LoadedModel& loaded, const std::string& prompt,
                          const kv::GenerateOptions& options, const kv::Math& math) {
  kv::GenerationRun run(loaded.tokenizer, loaded.tokenizer.encode(prompt), options);
  while (!run.done())
    run.push(kv::recompute(loaded.model, run.tokens(), kv::DType::f32, run.work(), math));
  return run.finish();
}

// The rest of a line, as numbers.
template <typename T>
std::vector<T> values(std::istream& words) {
  std::vector<T> all;
  for (T value; words >> value;) all.push_back(value);
  return all;
}

// How far the likeliest token is ahead of the second.
double lead_of_best(const std::vector<float>& logits) {
  std::vector<float> best(logits);
  std::partial_sort(best.begin(), best.begin() + 2, best.end(), std::greater<>());
  return double{best[0]} - best[1];
}

// Logits within the bound at every step; and since no choice was closer than twice the bound, the
// tokens must be the same.
void expect_agreement(const kv::LoadedModel& loaded, const std::string& prompt,
                      std::int64_t num_tokens, const kv::Math& math = kv::fast_math()) {
  const kv::ModelConfig& config = loaded.model.config;
  const auto options = greedy(num_tokens, config.context_length);
  const kv::Generation with_cache = cached(loaded, prompt, options, 512, kv::DType::f32, math);
  const kv::Agreement agreement = kv::compare(
      with_cache, config, kv::DType::f32, [&](std::span<const kv::TokenId> prefix, kv::Work* work) {
        return kv::recompute(loaded.model, prefix, kv::DType::f32, work, math);
      });
  INFO("largest difference " << agreement.max_logit_difference << ", bound " << agreement.bound);
  CHECK(agreement.within_bound());
  CHECK(agreement.steps.size() == with_cache.steps.size());
  for (const kv::Step& step : with_cache.steps)
    REQUIRE(lead_of_best(step.logits) > 2 * agreement.bound);
  CHECK(recomputed(loaded, prompt, options, math).output == with_cache.output);
}

}  // namespace

TEST_CASE("chapters 1 and 2: the embedded model agrees in logits and tokens", "[chapters][model]") {
  const kv::Math& math = *GENERATE(&kv::plain_math(), &kv::fast_math());
  auto loaded = kv_test::load_or_skip(kv_test::shakespeare_path());
  kv::widen_weights(loaded.model);
  expect_agreement(loaded, "ROMEO:", 60, math);
  expect_agreement(loaded, "First Citizen:\nBefore we proceed any further, hear me speak.", 40,
                   math);
}

TEST_CASE("chapters 1 and 2: the embedded model agrees up to the end of its context",
          "[chapters][model][limit]") {
  const auto loaded = kv_test::load_or_skip(kv_test::shakespeare_path());
  auto options = greedy(100000, loaded.model.config.context_length);
  options.ignore_eos = true;
  options.num_compared = 12;
  const kv::Generation run = cached(loaded, "ROMEO:", options);
  CHECK(run.prompt.size() + run.output.size() == 512);
  const kv::Agreement agreement =
      kv::compare(run, loaded.model.config, kv::DType::f32,
                  [&](std::span<const kv::TokenId> prefix, kv::Work* work) {
                    return kv::recompute(loaded.model, prefix, kv::DType::f32, work);
                  });
  CHECK(agreement.steps.size() == 12);
  CHECK(agreement.within_bound());
}

TEST_CASE("chapter 2: the cache never holds more rows than the context", "[chapters][limit]") {
  const auto loaded = kv_test::load_or_skip(kv_test::shakespeare_path());
  for (const auto& [prompt_len, num_new] : {std::pair{60, 4}, {63, 1}, {64, 0}}) {
    auto options = greedy(100000, 64);
    options.ignore_eos = true;
    kv::GenerationRun run(loaded.tokenizer, std::vector<kv::TokenId>(prompt_len, 300), options);
    kv::ContiguousCache cache(loaded.model.config, run.max_seq_len());
    CHECK(cache.capacity() == 64);
    if (!run.done()) run.push(kv::prefill(loaded.model, cache, run.tokens(), 512));
    while (!run.done()) run.push(kv::forward(loaded.model, cache, run.last_token()));
    CHECK(run.finish().output.size() == static_cast<std::size_t>(num_new));
    CHECK(cache.length() == (num_new > 0 ? 63 : 0));
  }
  CHECK_THROWS_AS(
      kv::GenerationRun(loaded.tokenizer, std::vector<kv::TokenId>(65, 300), greedy(1, 64)),
      kv::InputError);
}

TEST_CASE("chapters 1 and 2: the embedded model agrees with 16-bit caches as well",
          "[chapters][model]") {
  const auto loaded = kv_test::load_or_skip(kv_test::shakespeare_path());
  const auto dtype = GENERATE(kv::DType::f16, kv::DType::bf16);
  const kv::Generation run = cached(loaded, "ROMEO: what is it", greedy(100, 512), 512, dtype);
  const kv::Agreement agreement = kv::compare(
      run, loaded.model.config, dtype, [&](std::span<const kv::TokenId> prefix, kv::Work* work) {
        return kv::recompute(loaded.model, prefix, dtype, work);
      });
  INFO("largest difference " << agreement.max_logit_difference << ", bound " << agreement.bound);
  CHECK(agreement.within_bound());
  // The bound is narrow enough to see a wrong position, which moves logits by half a unit and more.
  CHECK(agreement.bound < 0.1);
}

TEST_CASE("chapters 1 and 2: stories260K agrees and tells its story", "[chapters][model]") {
  const auto loaded = kv_test::load_or_skip(kv_test::stories_path());
  CHECK(loaded.model.config.heads.num_q_heads == 8);
  CHECK(loaded.model.config.heads.num_kv_heads == 4);
  expect_agreement(loaded, "Once upon a time", 45);
  CHECK_THAT(cached(loaded, "Once upon a time", greedy(45, 512)).text,
             StartsWith("Once upon a time, there was a little girl named Lily. She loved to play "
                        "outside in the park. One day, she saw a big, red ball."));
}

TEST_CASE("chapters 1 and 2: SmolLM2 agrees in logits and tokens", "[chapters][model]") {
  const auto loaded = kv_test::load_or_skip(kv_test::smollm2_path());
  expect_agreement(loaded, "The capital of France is", 12);
}

TEST_CASE("generation: a prompt gives the same ids however often and after whatever else",
          "[generate][model]") {
  const auto loaded = kv_test::load_or_skip(kv_test::shakespeare_path());
  const auto options = greedy(20, 512);
  const auto first = cached(loaded, "KING RICHARD:", options).output;
  cached(loaded, "A much longer prompt, to leave other things behind: to be, or not to be.",
         options);
  CHECK(cached(loaded, "KING RICHARD:", options).output == first);
  for (const std::int64_t chunk : {1, 2, 3}) {
    const auto chunked = cached(loaded, "KING RICHARD:", options, chunk);
    CHECK(chunked.output == first);
  }
}

TEST_CASE("the embedded model: its logits are those of the framework that trained it",
          "[model][golden]") {
  // How the lines were made stands in the file.
  std::ifstream file(KV_SOURCE_DIR "/tests/golden/shakespeare_logits.txt");
  REQUIRE(file);
  const kv::Math& math = *GENERATE(&kv::plain_math(), &kv::fast_math());
  auto loaded = kv_test::load_or_skip(kv_test::shakespeare_path());
  kv::widen_weights(loaded.model);
  std::vector<kv::TokenId> prompt;
  int num_cases = 0;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string key;
    words >> key;
    if (key == "ids:") {
      prompt = values<kv::TokenId>(words);
      REQUIRE(prompt.size() >= 2);
    } else if (key == "logits:") {
      const auto expected = values<double>(words);
      REQUIRE(expected.size() == 16);
      kv::ContiguousCache cache(loaded.model.config, static_cast<std::int64_t>(prompt.size()));
      const std::vector<float> logits = kv::forward(loaded.model, cache, prompt, nullptr, math);
      double largest = 0.0;
      for (const float logit : logits) largest = std::max(largest, std::fabs(double{logit}));
      // Both sides round in fp32: twice the bound.
      const double atol = 2 * kv::logits_atol(loaded.model.config, kv::DType::f32, largest);
      for (std::size_t i = 0; i < expected.size(); ++i)
        CHECK(std::fabs(logits[i] - expected[i]) <= atol);
    } else if (key == "greedy:") {
      const auto expected = values<kv::TokenId>(words);
      REQUIRE(expected.size() == 40);
      const std::string text = loaded.tokenizer.decode(prompt);
      CHECK(loaded.tokenizer.encode(text) == prompt);
      CHECK(cached(loaded, text, greedy(40, 512), 512, kv::DType::f32, math).output == expected);
      ++num_cases;
    }
  }
  CHECK(num_cases == 4);
}
