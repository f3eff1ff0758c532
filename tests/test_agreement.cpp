// The comparison of two chapters: it must see what differs.
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <limits>

#include "kv/agreement.hpp"
#include "support/random_model.hpp"

namespace {

kv::Generation run_with_logits(const std::vector<std::vector<float>>& logits) {
  kv::Generation run;
  run.prompt = {1, 2};
  for (const auto& row : logits) {
    kv::Step step;
    step.seq_len = 2 + static_cast<std::int64_t>(run.output.size());
    step.logits = row;
    step.work.rows = 1;
    run.steps.push_back(step);
    run.output.push_back(static_cast<kv::TokenId>(10 + run.output.size()));
  }
  return run;
}

kv::ModelConfig shape() {
  kv::ModelConfig config;
  config.d_model = 64;
  config.ffn_dim = 128;
  config.num_layers = 2;
  config.heads = {2, 1, 16};
  return config;
}

}  // namespace

TEST_CASE("agreement: the previous method sees exactly the prefix of each step", "[agreement]") {
  const auto run = run_with_logits({{0, 1}, {}, {0, 3}});  // the middle step was not kept
  std::vector<std::vector<kv::TokenId>> prefixes;
  const auto result = kv::compare(run, shape(), kv::DType::f32,
                                  [&](std::span<const kv::TokenId> prefix, kv::Work* work) {
                                    prefixes.emplace_back(prefix.begin(), prefix.end());
                                    work->rows += static_cast<std::int64_t>(prefix.size());
                                    return std::vector<float>{0, 1};
                                  });
  CHECK(prefixes == std::vector<std::vector<kv::TokenId>>{{1, 2}, {1, 2, 10, 11}});
  REQUIRE(result.steps.size() == 2);
  CHECK(result.num_steps == 3);
  CHECK(result.steps[0].previous_work.rows == 2);
  CHECK(result.steps[1].previous_work.rows == 4);
  CHECK(result.steps[1].work.rows == 1);
}

TEST_CASE("agreement: a difference beyond the bound and another token are both seen",
          "[agreement]") {
  const auto compare_with = [&](std::vector<float> previous) {
    return kv::compare(run_with_logits({{0, 1, 5}}), shape(), kv::DType::f32,
                       [&](std::span<const kv::TokenId>, kv::Work*) { return previous; });
  };
  const auto same = compare_with({0, 1, 5});
  CHECK(same.max_logit_difference == 0.0);
  CHECK(same.within_bound());
  CHECK(same.tokens_equal == 1);
  const auto off = compare_with({0, 1.01f, 5});
  CHECK(!off.within_bound());
  CHECK(off.tokens_equal == 1);
  const auto other = compare_with({0, 6, 5});
  CHECK(other.max_logit_difference == 5.0);
  CHECK(other.tokens_equal == 0);
}

TEST_CASE("agreement: the largest difference of all steps counts, whichever step it is in",
          "[agreement]") {
  const auto run = run_with_logits({{0, 1}, {0, 1}, {0, 1}});
  for (const std::size_t worst : {2, 3, 4}) {
    const auto result = kv::compare(
        run, shape(), kv::DType::f32, [&](std::span<const kv::TokenId> prefix, kv::Work*) {
          return std::vector<float>{0, prefix.size() == worst ? 3.0f : 1.5f};
        });
    CHECK(result.max_logit_difference == 2.0);
    CHECK(!result.within_bound());
  }
}

TEST_CASE("agreement: NaN on either side is never within the bound", "[agreement]") {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (const bool here : {true, false}) {
    const auto run = run_with_logits({{0, here ? kNan : 1.0f}, {0, 1}});
    const auto result = kv::compare(run, shape(), kv::DType::f32,
                                    [&](std::span<const kv::TokenId> prefix, kv::Work*) {
                                      const bool first = prefix.size() == 2;
                                      return std::vector<float>{0, !here && first ? kNan : 1.0f};
                                    });
    CHECK(!result.within_bound());
  }
}

TEST_CASE("agreement: the bound grows with depth, width, size and the cache's rounding",
          "[agreement]") {
  const kv::ModelConfig config = shape();
  const double base = kv::logits_atol(config, kv::DType::f32, 10.0);
  kv::ModelConfig deeper = config, wider = config;
  deeper.num_layers = 8;
  wider.ffn_dim = 4096;
  CHECK(kv::logits_atol(deeper, kv::DType::f32, 10.0) > base);
  CHECK(kv::logits_atol(wider, kv::DType::f32, 10.0) > base);
  CHECK(kv::logits_atol(config, kv::DType::f32, 20.0) == 2 * base);
  // 3 * sqrt(2^-23 * half step) in the place of 2^-23: 3 * 2^6 and 3 * 2^7.5.
  CHECK(kv::logits_atol(config, kv::DType::f16, 10.0) == Catch::Approx(192 * base));
  CHECK(kv::logits_atol(config, kv::DType::bf16, 10.0) ==
        Catch::Approx(192 * std::sqrt(8.0) * base));
}

TEST_CASE("agreement: 16-bit products of one side widen the bound by their rounding",
          "[agreement]") {
  const kv::ModelConfig config = shape();
  const auto wider = [&](kv::DType products, double largest) {
    return kv::logits_atol(config, kv::DType::f32, largest, products) -
           kv::logits_atol(config, kv::DType::f32, largest);
  };
  CHECK(wider(kv::DType::f32, 10.0) == 0.0);
  // 2 layers, q and the weights rounded in each: sqrt(4) half steps of the largest logit.
  CHECK(wider(kv::DType::f16, 10.0) == Catch::Approx(10 * 2 * 0x1p-11));
  CHECK(wider(kv::DType::bf16, 10.0) == Catch::Approx(10 * 2 * 0x1p-8));
  CHECK(wider(kv::DType::bf16, 0.1) == Catch::Approx(2 * 0x1p-8));

  const auto run = run_with_logits({{0, 1, 5}});
  const auto previous = [](std::span<const kv::TokenId>, kv::Work*) {
    return std::vector<float>{0, 1.02f, 5};
  };
  CHECK(!kv::compare(run, config, kv::DType::f32, previous).within_bound());
  CHECK(kv::compare(run, config, kv::DType::f32, previous, kv::DType::bf16).within_bound());
}
