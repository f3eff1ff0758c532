// Exercise 04_attention_cost: attention_cost().
#include "course/support.hpp"
#include "kv/cost/shared_heads.hpp"

namespace {

// Heads and cached tokens from the seed: a group of at least two, and of at least two groups.
struct Step {
  explicit Step(std::uint64_t salt) {
    auto random = kv_course::random_numbers(salt);
    group = static_cast<int>(kv_course::pick(random, 2, 8));
    heads.num_kv_heads = static_cast<int>(kv_course::pick(random, 2, 8));
    heads.num_q_heads = group * heads.num_kv_heads;
    heads.head_dim = 32 * static_cast<int>(kv_course::pick(random, 2, 6));
    num_tokens = kv_course::pick(random, 1000, 100000);
  }
  kv::StepCost cost(const char* format) const {
    return kv::attention_cost(heads, kv::kv_format(format), num_tokens);
  }
  // What is read when a vector of K or of V takes so many bytes.
  double read(std::int64_t vector_bytes) const {
    std::int64_t a_token = 0;
    for (int g = 0; g < heads.num_kv_heads; ++g) a_token += vector_bytes + vector_bytes;
    return static_cast<double>(a_token * num_tokens);
  }

  int group = 0;
  kv::HeadConfig heads;
  std::int64_t num_tokens = 0;
};

}  // namespace

TEST_CASE("K and V of each KV head are read once") {
  const Step step(1);
  CHECK(step.cost("fp32").kv_bytes == step.read(step.heads.head_dim * 4));
  CHECK(step.cost("bf16").kv_bytes == step.read(step.heads.head_dim * 2));
  CHECK(step.cost("bf16").weight_bytes == 0.0);
}

TEST_CASE("each query head meets every key and value") {
  const Step step(2);
  std::int64_t multiply_adds = 0;
  for (int h = 0; h < step.heads.num_q_heads; ++h)
    multiply_adds += step.num_tokens * (step.heads.head_dim + step.heads.head_dim);
  CHECK(step.cost("bf16").flops == static_cast<double>(2 * multiply_adds));
  CHECK(step.cost("int8").flops == static_cast<double>(2 * multiply_adds));
}

TEST_CASE("in 16 bit there are group_size operations a byte") {
  const Step step(3);
  CHECK(step.cost("fp16").intensity() == step.group);
  Step unshared(3);
  unshared.heads.num_kv_heads = unshared.heads.num_q_heads;
  CHECK(unshared.cost("fp16").intensity() == 1.0);
}

TEST_CASE("the scales of a quantised cache are read too") {
  const Step step(4);
  const std::int64_t head_dim = step.heads.head_dim;
  // int8 has one scale of 4 bytes for a vector, int4 one of 2 bytes for each 32 elements.
  CHECK(step.cost("int8").kv_bytes == step.read(head_dim + 4));
  CHECK(step.cost("int4").kv_bytes == step.read(head_dim / 2 + head_dim / 32 * 2));
}
