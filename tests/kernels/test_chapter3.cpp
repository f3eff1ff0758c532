// Chapter 3 equals chapter 2: the decoder with attention in kernels against attention on the CPU.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "decoder_pair.hpp"
#include "kv/attention/reference.hpp"
#include "support/attention_check.hpp"
#include "support/random_model.hpp"
#include "support/real_models.hpp"

using Catch::Matchers::ContainsSubstring;

namespace {

using kv::AttentionStep, kv::AttentionSteps, kv::Backend, kv::DType;
using kv_test::feed_all, kv_test::Pair, kv_test::random_tokens, kv_test::RandomModelShape;
using kv_test::Tokens;

constexpr AttentionSteps both(AttentionStep step) { return {step, step}; }

RandomModelShape shape_of(int head_dim, int group, unsigned seed) {
  return {.num_layers = 2,
          .num_q_heads = 2 * group,
          .num_kv_heads = 2,
          .head_dim = head_dim,
          .d_model = 64,
          .ffn_dim = 96,
          .seed = seed};
}

}  // namespace

TEST_CASE("chapter 3: random models of every head size and group agree with chapter 2",
          "[kernels][chapter3]") {
  const int head_dim = GENERATE(32, 64, 80, 96, 128);
  const int group = GENERATE(1, 2, 3);
  const kv::Model model = kv_test::random_model(shape_of(head_dim, group, 1));
  const auto tokens = random_tokens(20, model.config.vocab_size, 2);
  for (const std::size_t prompt_len : {1, 2, 17}) {
    Pair pair(model, {}, DType::f32, 20);
    CHECK(feed_all(pair, Tokens(tokens).first(prompt_len + 3), prompt_len, 100) > 0);
  }
}

TEST_CASE("chapter 3: every step of the ladder agrees with chapter 2", "[kernels][chapter3]") {
  const int number = GENERATE(1, 2, 3, 5, 6);
  const kv::Model model = kv_test::random_model(shape_of(32, 3, 3));
  const auto tokens = random_tokens(12, model.config.vocab_size, 4);
  for (const std::size_t chunk : {1, 4, 5, 9}) {
    Pair pair(model, both(AttentionStep{number}), DType::f32, 12);
    CHECK(feed_all(pair, tokens, 9, chunk) > 0);
  }
}

TEST_CASE("chapter 3: 16-bit caches agree with chapter 2's, with and without tensor cores",
          "[kernels][chapter3]") {
  const auto dtype = GENERATE(DType::f16, DType::bf16);
  const int number = GENERATE(0, 2, 3, 4, 5, 6);
  const kv::Model model = kv_test::random_model(shape_of(64, 2, 5));
  const auto tokens = random_tokens(22, model.config.vocab_size, 6);
  for (const std::size_t chunk : {7, 100}) {
    Pair pair(model, kv::attention_steps(number, dtype), dtype, 22);
    feed_all(pair, tokens, 17, chunk);
  }
}

TEST_CASE("chapter 3: the checking emulator finds nothing in a whole pass", "[kernels][chapter3]") {
  const auto dtype = GENERATE(DType::f32, DType::bf16);
  const kv::Model model = kv_test::random_model(shape_of(32, 2, 7));
  const auto tokens = random_tokens(6, model.config.vocab_size, 8);
  Pair pair(model, kv::attention_steps(0, dtype), dtype, 6, Backend::checked);
  feed_all(pair, tokens, 5, 3);
}

TEST_CASE("chapter 3: a batch of different sequences gives each its own logits",
          "[kernels][chapter3]") {
  const kv::Model model = kv_test::random_model(shape_of(32, 2, 9));
  const int vocab_size = model.config.vocab_size;
  kv::Device& device = kv::device(Backend::emulated);
  const auto memory = std::make_shared<kv::DeviceRows>(device, model.config, 40, DType::f32);
  kv::DeviceAttention attention(device, model.config.heads, DType::f32, {});
  // The second starts late, the third decodes while the others prefill, lengths differ.
  std::vector<kv::DeviceCache> actual;
  std::vector<kv::ContiguousCache> expected;
  for (const std::int64_t capacity : {12, 9, 15}) {
    actual.emplace_back(memory, capacity);
    expected.emplace_back(model.config, capacity);
  }
  const std::vector<std::vector<int>> passes = {{5, 0, 1}, {1, 4, 7}, {1, 1, 1}, {3, 1, 0}};
  unsigned seed = 10;
  for (const auto& counts : passes) {
    std::vector<std::vector<kv::TokenId>> tokens;
    for (const int count : counts) tokens.push_back(random_tokens(count, vocab_size, seed++));
    std::vector<kv::BatchItem> device_batch, cpu_batch;
    for (int b = 0; b < 3; ++b) {
      if (counts[b] == 0) continue;
      device_batch.push_back({&actual[b], tokens[b]});
      cpu_batch.push_back({&expected[b], tokens[b]});
    }
    const kv::RowMajor on_cpu = kv::forward(model, cpu_batch);
    const kv::RowMajor on_device =
        kv::forward(model, device_batch, nullptr, kv_test::with_attention(attention));
    const double atol = kv::logits_atol(model.config, DType::f32, on_cpu.cwiseAbs().maxCoeff());
    REQUIRE((on_device - on_cpu).cwiseAbs().maxCoeff() <= atol);
  }
}

TEST_CASE("device attention: the log-sum-exp comes down for those who ask", "[kernels][chapter3]") {
  kv::ModelConfig config;
  config.num_layers = 1;
  config.heads = {4, 2, 32};
  kv::Device& device = kv::device(Backend::emulated);
  const auto memory = std::make_shared<kv::DeviceRows>(device, config, 20, DType::f32);
  kv::DeviceCache first(memory, 8), second(memory, 12);
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  const auto values = [&](int count) {
    std::vector<float> all(count);
    for (float& x : all) x = normal(random);
    return all;
  };
  const auto k1 = values(8 * 64), v1 = values(8 * 64), k2 = values(11 * 64), v2 = values(11 * 64);
  first.append(0, k1.data(), v1.data(), 8);
  second.append(0, k2.data(), v2.data(), 11);
  // Rows of q lie 150 floats apart; nobody may read between them.
  std::vector<float> q(4 * 150, NAN), out1(3 * 128), out2(128), lse2(4);
  for (int t = 0; t < 4; ++t)
    for (int d = 0; d < 128; ++d) q[t * 150 + d] = normal(random);
  const kv::AttentionItem items[] = {{q.data(), 150, 3, &first, out1.data(), nullptr},
                                     {q.data() + 450, 150, 1, &second, out2.data(), lse2.data()}};
  kv::DeviceAttention attention(device, config.heads, DType::f32, {});
  for (const float scale : {0.25f, 0.5f}) {  // the same rows: only the scale makes a new plan
    attention(items, config.heads, 0, scale);
    const auto expect = [&](int t, int q_len, const auto& k, const auto& v, int kv_len,
                            const std::vector<float>& out) {
      std::vector<float> packed;
      for (int i = t; i < t + q_len; ++i)
        packed.insert(packed.end(), q.begin() + i * 150, q.begin() + i * 150 + 128);
      const auto exact = kv::reference_attention(packed.data(), k.data(), v.data(), config.heads,
                                                 q_len, kv_len, scale);
      kv_test::require_close(out, exact.out,
                             kv_test::attention_atol(exact.score_mass, exact.max_abs_value));
      return exact;
    };
    expect(0, 3, k1, v1, 8, out1);
    const auto exact = expect(3, 1, k2, v2, 11, out2);
    kv_test::require_close(lse2, exact.lse, kv_test::attention_atol(exact.score_mass, 1.0));
  }
}

TEST_CASE("device attention: states that it cannot read are refused", "[kernels][chapter3]") {
  const kv::Model model = kv_test::random_model(shape_of(32, 1, 11));
  kv::Device& device = kv::device(Backend::emulated);
  kv::DeviceAttention attention(device, model.config.heads, DType::f32, {});
  const kv::TokenId token = 1;
  const auto forward = [&](kv::SequenceState& a, kv::SequenceState* b = nullptr) {
    std::vector<kv::BatchItem> batch = {{&a, {&token, 1}}};
    if (b != nullptr) batch.push_back({b, {&token, 1}});
    return kv::forward(model, batch, nullptr, kv_test::with_attention(attention));
  };
  kv::ContiguousCache on_cpu(model.config, 2);
  CHECK_THROWS_AS(forward(on_cpu), std::invalid_argument);
  kv::DeviceCache other_format(device, model.config, 2, DType::f16);
  CHECK_THROWS_AS(forward(other_format), std::invalid_argument);
  kv::DeviceCache one(device, model.config, 2), another(device, model.config, 2);
  CHECK_THROWS_AS(forward(one, &another), std::invalid_argument);
}

TEST_CASE("device attention: heads without a kernel are refused before anything runs",
          "[kernels][chapter3]") {
  kv::Device& device = kv::device(Backend::emulated);
  const auto make = [&](int head_dim, int step) {
    return kv::DeviceAttention(device, {8, 4, head_dim}, DType::f32,
                               kv::attention_steps(step, DType::f32));
  };
  CHECK_THROWS_AS(make(8, 0), kv::InputError);
  CHECK_THROWS_WITH(make(8, 0), ContainsSubstring("head_dim 8"));
  CHECK_THROWS_WITH(make(32, 4), ContainsSubstring("--kv-dtype"));
}

TEST_CASE("chapter 3: the embedded model agrees with chapter 2", "[kernels][chapter3][model]") {
  const auto loaded = kv_test::load_or_skip(kv_test::shakespeare_path());
  const auto dtype = GENERATE(DType::f32, DType::f16, DType::bf16);
  // The text that chapter 2 writes itself, so that every step is one that a reader sees.
  auto tokens = loaded.tokenizer.encode("First Citizen:\nBefore we proceed any further,");
  const std::size_t prompt_len = tokens.size();
  kv::ContiguousCache cache(loaded.model.config, 64);
  std::vector<float> logits = kv::prefill(loaded.model, cache, tokens, 512);
  for (int i = 0; i < 12; ++i) {
    tokens.push_back(kv::argmax(logits));
    logits = kv::forward(loaded.model, cache, Tokens(tokens).last(1));
  }
  Pair pair(loaded.model, kv::attention_steps(0, dtype), dtype, 64);
  const int num_decided = feed_all(pair, tokens, prompt_len, 512);
  if (dtype == DType::f32) CHECK(num_decided == 13);
}

TEST_CASE("chapter 3: SmolLM2 agrees with chapter 2", "[kernels][chapter3][model]") {
  const auto loaded = kv_test::load_or_skip(kv_test::smollm2_path());
  const auto tokens = loaded.tokenizer.encode("The capital of France is Paris");
  Pair pair(loaded.model, {}, DType::f32, 16);
  CHECK(feed_all(pair, tokens, tokens.size() - 2, 512) == 3);
}
