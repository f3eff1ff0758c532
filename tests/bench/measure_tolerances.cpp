// Measures what docs/tolerances.md states: how far rounding really takes equal computations apart,
// as a share of each bound without its factor.
//
// Run: build/default/bin/measure_tolerances
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <random>
#include <vector>

#include "kv/agreement.hpp"
#include "kv/attention/attention.hpp"
#include "kv/attention/reference.hpp"
#include "kv/cache/contiguous.hpp"
#include "support/random_model.hpp"
#include "support/reference_decoder.hpp"

namespace {

using kv::DType;

class Random {
 public:
  explicit Random(unsigned seed) : generator_(seed) {}
  int pick(std::initializer_list<int> values) {
    return values.begin()[generator_() % values.size()];
  }
  float uniform(float size) {
    return size * (static_cast<float>(generator_() >> 8) * 0x1p-23f - 1.0f);
  }
  std::vector<kv::TokenId> tokens(int count, int vocab_size) {
    std::vector<kv::TokenId> ids(count);
    for (kv::TokenId& id : ids)
      id = static_cast<kv::TokenId>(generator_() % static_cast<unsigned>(vocab_size));
    return ids;
  }

 private:
  std::mt19937 generator_;
};

double max_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i)
    largest = std::max(largest, std::fabs(double{a[i]} - b[i]));
  return largest;
}

double max_abs(const std::vector<float>& values) {
  return max_difference(values, std::vector<float>(values.size(), 0.0f));
}

// Attention in fp32 against the oracle, in units of eps * max(1, A) * max|v|.
double attention_ratio(unsigned seed, const kv::Math& math) {
  Random random(seed);
  kv::ModelConfig config;
  config.num_layers = 1;
  const int num_kv_heads = random.pick({1, 2});
  config.heads = {num_kv_heads * random.pick({1, 3, 8}), num_kv_heads,
                  random.pick({4, 32, 64, 80, 128, 256})};
  const int kv_len = random.pick({1, 2, 63, 64, 65, 300, 1000, 4096});
  const int q_len = std::min(kv_len, random.pick({1, 1, 5, 17}));
  const float size = static_cast<float>(random.pick({1, 4, 16})) * 0.5f;
  std::vector<float> q(q_len * config.heads.q_dim()), out(q.size());
  std::vector<float> k(kv_len * config.heads.kv_dim()), v(k.size());
  for (float& x : q) x = random.uniform(size);
  for (float& x : k) x = random.uniform(size);
  for (float& x : v) x = random.uniform(1.0f);
  kv::ContiguousCache cache(config, kv_len);
  cache.append(0, k.data(), v.data(), kv_len);
  cache.commit(kv_len);
  const float scale = 1.0f / std::sqrt(static_cast<float>(config.heads.head_dim));
  const kv::AttentionItem item{q.data(), config.heads.q_dim(), q_len, &cache, out.data(), nullptr};
  math.attention({&item, 1}, config.heads, 0, scale);
  const auto exact =
      kv::reference_attention(q.data(), k.data(), v.data(), config.heads, q_len, kv_len, scale);
  double largest = 0.0;
  for (std::size_t i = 0; i < out.size(); ++i)
    largest = std::max(largest, std::fabs(out[i] - exact.out[i]));
  return largest / (std::numeric_limits<float>::epsilon() * std::max(1.0, exact.score_mass) *
                    exact.max_abs_value);
}

// Logits of chapter 2 against chapter 1, and of chapter 1 against the decoder in double, in units
// of the bound with factor 1.
struct LogitRatios {
  double chapters = 0.0;
  double oracle = 0.0;
};

LogitRatios logit_ratios(unsigned seed, kv::KvDType dtype, const kv::Math& math) {
  Random random(seed);
  kv_test::RandomModelShape shape;
  shape.num_layers = random.pick({1, 2, 4, 7});
  shape.num_kv_heads = random.pick({1, 2, 3});
  shape.num_q_heads = shape.num_kv_heads * random.pick({1, 3, 4, 8});
  shape.head_dim = random.pick({16, 32, 64, 80});
  shape.d_model = random.pick({32, 64, 96, 128});
  shape.ffn_dim = random.pick({32, 64, 160, 320});
  shape.seed = seed;
  kv::Model model = kv_test::random_model(shape);
  kv::widen_weights(model);
  const int prompt_len = random.pick({1, 2, 16, 17, 40}), chunk = random.pick({1, 4, 5, 100});
  constexpr int kSteps = 3;
  const auto tokens = random.tokens(prompt_len + kSteps, model.config.vocab_size);
  const std::span<const kv::TokenId> all(tokens);
  const auto exact = kv_test::reference_forward(model, tokens);

  LogitRatios ratios;
  kv::ContiguousCache cache(model.config, prompt_len + kSteps, dtype);
  std::vector<float> cached =
      kv::prefill(model, cache, all.first(prompt_len), chunk, nullptr, math);
  for (int step = 0; step <= kSteps; ++step) {
    if (step > 0)
      cached = kv::forward(model, cache, all.subspan(prompt_len + step - 1, 1), nullptr, math);
    const auto recomputed =
        kv::recompute(model, all.first(prompt_len + step), dtype, nullptr, math);
    const auto& row = exact[prompt_len + step - 1];
    const double unit =
        kv::logits_atol(model.config, dtype, max_abs(recomputed)) / kv::kLogitsFactor;
    ratios.chapters = std::max(ratios.chapters, max_difference(cached, recomputed) / unit);
    ratios.oracle =
        std::max(ratios.oracle,
                 max_difference(recomputed, std::vector<float>(row.begin(), row.end())) / unit);
  }
  return ratios;
}

}  // namespace

int main() {
  for (const kv::Math* math : {&kv::plain_math(), &kv::fast_math()}) {
    double attention = 0.0;
    for (unsigned seed = 1; seed <= 200; ++seed)
      attention = std::max(attention, attention_ratio(seed, *math));
    std::printf("%s: attention, fp32: largest error %.2f of eps * max(1, A) * max|v| (200 cases)\n",
                math->name.data(), attention);
    for (const kv::KvDType dtype : {DType::f32, DType::f16, DType::bf16}) {
      LogitRatios worst;
      for (unsigned seed = 1; seed <= 60; ++seed) {
        const LogitRatios ratios = logit_ratios(seed, dtype, *math);
        worst.chapters = std::max(worst.chapters, ratios.chapters);
        worst.oracle = std::max(worst.oracle, ratios.oracle);
      }
      std::printf(
          "%s: logits, %s cache: chapters 1 and 2 differ by %.3f of the bound without its factor",
          math->name.data(), kv::info(dtype).name.data(), worst.chapters);
      if (dtype == DType::f32) std::printf("; chapter 1 and double by %.3f", worst.oracle);
      std::printf(" (240 prefixes of 60 models)\n");
    }
  }
}
