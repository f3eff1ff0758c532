// Exercise 02_decode_step: decode_step().
#include <stdexcept>

#include "course/model_support.hpp"
#include "kv/cache/contiguous.hpp"
#include "kv/generate.hpp"

namespace {

// A text of which the cache holds all but the last `num_steps` tokens.
struct Text {
  explicit Text(std::uint64_t salt) : random(kv_course::random_numbers(salt)) {
    kv::forward(model, cache, before(0));
  }

  // The text before step `step` has its token.
  std::span<const kv::TokenId> before(std::int64_t step) const {
    return std::span(tokens).first(static_cast<std::size_t>(prompt_len + step));
  }

  static constexpr std::int64_t kSteps = 4;
  std::mt19937_64 random;
  kv::Model model = kv_course::random_model(random);
  std::int64_t prompt_len = kv_course::pick(random, 5, 12);
  std::vector<kv::TokenId> tokens = kv_course::random_tokens(random, model, prompt_len + kSteps);
  kv::ContiguousCache cache{model.config, 3 * (prompt_len + kSteps)};
};

}  // namespace

TEST_CASE("the logits are those of a recomputation") {
  Text text(1);
  for (std::int64_t step = 1; step <= Text::kSteps; ++step) {
    INFO("step " << step << " after a prompt of " << text.prompt_len << " tokens");
    kv_course::expect_logits_after(text.model, text.before(step),
                                   kv::decode_step(text.model, text.cache, text.before(step)));
  }
}

TEST_CASE("exactly one row goes through the model") {
  Text text(2);
  const kv::ModelConfig& c = text.model.config;
  for (std::int64_t step = 1; step <= Text::kSteps; ++step) {
    kv::Work work;
    kv::decode_step(text.model, text.cache, text.before(step), &work);
    INFO("step " << step << " after a prompt of " << text.prompt_len << " tokens");
    CHECK(work.rows == 1);
    // It looks at every token of the text, itself included.
    CHECK(work.scores == (text.prompt_len + step) * c.heads.num_q_heads * c.num_layers);
  }
}

TEST_CASE("the state holds one token more") {
  Text text(3);
  for (std::int64_t step = 1; step <= Text::kSteps; ++step) {
    kv::decode_step(text.model, text.cache, text.before(step));
    CHECK(text.cache.length() == text.prompt_len + step);
  }
}

TEST_CASE("the math handed in is the one that runs") {
  Text text(4);
  kv_course::WatchedMath watched;
  kv::decode_step(text.model, text.cache, text.before(1), nullptr, watched.math);
  watched.expect_one_pass(text.model.config);
}

TEST_CASE("a state that holds other tokens is refused") {
  Text text(5);
  // One token behind; one ahead, as after a step that was taken twice; not a token at all.
  CHECK_THROWS_AS(kv::decode_step(text.model, text.cache, text.before(2)), std::invalid_argument);
  CHECK_THROWS_AS(kv::decode_step(text.model, text.cache, text.before(0)), std::invalid_argument);
  CHECK_THROWS_AS(kv::decode_step(text.model, text.cache, {}), std::invalid_argument);
  CHECK(text.cache.length() == text.prompt_len);
}
