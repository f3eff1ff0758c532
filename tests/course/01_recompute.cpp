// Exercise 01_recompute: recompute().
#include "course/model_support.hpp"
#include "kv/generate.hpp"

namespace {

struct Text {
  explicit Text(std::uint64_t salt) : random(kv_course::random_numbers(salt)) {}

  std::mt19937_64 random;
  kv::Model model = kv_course::random_model(random);
  std::vector<kv::TokenId> tokens =
      kv_course::random_tokens(random, model, kv_course::pick(random, 8, 20));
};

}  // namespace

TEST_CASE("the logits are those after the whole text") {
  const Text text(1);
  kv_course::expect_logits_after(text.model, text.tokens,
                                 kv::recompute(text.model, text.tokens, kv::DType::f32));
}

TEST_CASE("every token is a row through the model") {
  const Text text(2);
  kv::Work work;
  const auto num_tokens = static_cast<std::int64_t>(text.tokens.size());
  kv::recompute(text.model, text.tokens, kv::DType::f32, &work);
  CHECK(work.rows == num_tokens);
  kv::recompute(text.model, std::span(text.tokens).first(3), kv::DType::f32, &work);
  CHECK(work.rows == num_tokens + 3);
}

TEST_CASE("nothing is left from an earlier step") {
  const Text text(3);
  const std::span<const kv::TokenId> tokens = text.tokens;
  // Longer and longer, as chapter 1 calls it, then another text.
  for (const std::size_t count : {tokens.size() - 2, tokens.size() - 1, tokens.size()})
    kv_course::expect_logits_after(text.model, tokens.first(count),
                                   kv::recompute(text.model, tokens.first(count), kv::DType::f32));
  kv_course::expect_logits_after(text.model, tokens.subspan(2),
                                 kv::recompute(text.model, tokens.subspan(2), kv::DType::f32));
}

TEST_CASE("keys and values have the format asked for") {
  const Text text(4);
  const kv::ModelConfig& c = text.model.config;
  const std::int64_t num_elements = 2 * c.num_layers * c.heads.num_kv_heads * c.heads.head_dim *
                                    static_cast<std::int64_t>(text.tokens.size());
  for (const kv::DType dtype : {kv::DType::f32, kv::DType::bf16, kv::DType::f16}) {
    kv::Work work;
    kv::recompute(text.model, text.tokens, dtype, &work);
    CHECK(work.kv_bytes_written == num_elements * (dtype == kv::DType::f32 ? 4 : 2));
  }
}

TEST_CASE("the math handed in is the one that runs") {
  const Text text(5);
  kv_course::WatchedMath watched;
  kv::recompute(text.model, text.tokens, kv::DType::f32, nullptr, watched.math);
  watched.expect_one_pass(text.model.config);
}
