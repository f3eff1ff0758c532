// Exercise 01_recompute_work: recompute_rows() and recompute_scores().
#include "course/support.hpp"
#include "kv/cost/work.hpp"

namespace {

kv::ModelConfig random_config(std::mt19937_64& random) {
  kv::ModelConfig config;
  config.num_layers = static_cast<int>(kv_course::pick(random, 2, 9));
  config.heads.num_kv_heads = static_cast<int>(kv_course::pick(random, 2, 4));
  config.heads.num_q_heads = config.heads.num_kv_heads * static_cast<int>(2 + random() % 3);
  return config;
}

}  // namespace

TEST_CASE("rows are the sum of all steps") {
  auto random = kv_course::random_numbers(1);
  const std::int64_t prompt_len = kv_course::pick(random, 2, 30);
  std::int64_t rows = 0;
  for (std::int64_t n = 1; n <= 40; ++n) {
    rows += prompt_len + n - 1;  // the whole text so far
    INFO("prompt_len " << prompt_len << ", num_new " << n);
    REQUIRE(kv::recompute_rows(prompt_len, n) == rows);
  }
}

TEST_CASE("products are counted in every query head and layer") {
  auto random = kv_course::random_numbers(2);
  const kv::ModelConfig config = random_config(random);
  const std::int64_t prompt_len = kv_course::pick(random, 2, 30);
  std::int64_t pairs = 0;
  for (std::int64_t n = 1; n <= 40; ++n) {
    for (std::int64_t t = 0; t < prompt_len + n - 1; ++t) pairs += t + 1;  // itself and all before
    INFO("prompt_len " << prompt_len << ", num_new " << n << ", " << config.heads.num_q_heads
                       << " query heads, " << config.num_layers << " layers");
    REQUIRE(kv::recompute_scores(config, prompt_len, n) ==
            pairs * config.heads.num_q_heads * config.num_layers);
  }
}

TEST_CASE("no new token costs nothing") {
  auto random = kv_course::random_numbers(3);
  const kv::ModelConfig config = random_config(random);
  const std::int64_t prompt_len = kv_course::pick(random, 2, 30);
  CHECK(kv::recompute_rows(prompt_len, 0) == 0);
  CHECK(kv::recompute_scores(config, prompt_len, 0) == 0);
  // One step more is what one step costs.
  CHECK(kv::recompute_rows(prompt_len, 1) == prompt_len);
}

TEST_CASE("a long text is counted exactly") {
  auto random = kv_course::random_numbers(4);
  const kv::ModelConfig config = random_config(random);
  const std::int64_t prompt_len = kv_course::pick(random, 1000, 2000);
  const std::int64_t num_new = kv_course::pick(random, 300000, 400000);
  std::int64_t rows = 0, pairs = 0;
  for (std::int64_t length = prompt_len; length < prompt_len + num_new; ++length) {
    rows += length;
    pairs += length * (length + 1) / 2;
  }
  CHECK(kv::recompute_rows(prompt_len, num_new) == rows);
  CHECK(kv::recompute_scores(config, prompt_len, num_new) ==
        pairs * config.heads.num_q_heads * config.num_layers);
}
