// Measures what docs/tolerances.md states of chapter 3: how far attention in kernels takes logits
// from chapter 2's, as a share of the bound, and of its part for 16-bit products without its
// factor.
//
// Run: build/default/bin/measure_kernel_tolerances
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <initializer_list>
#include <random>
#include <vector>

#include "attention/device_attention.hpp"
#include "kv/agreement.hpp"
#include "kv/cache/contiguous.hpp"
#include "support/random_model.hpp"

namespace {

using kv::DType;

struct Ratios {
  double bound = 0.0;     // largest difference / logits_atol
  double products = 0.0;  // largest difference / (half_step * sqrt(2 * num_layers) * max|logit|)
};

Ratios ratios_of(unsigned seed, DType dtype, int step) {
  std::mt19937 random(seed);
  const auto pick = [&](std::initializer_list<int> values) {
    return values.begin()[random() % values.size()];
  };
  kv_test::RandomModelShape shape;
  shape.num_layers = pick({1, 2, 4, 7});
  shape.num_kv_heads = pick({1, 2, 3});
  shape.num_q_heads = shape.num_kv_heads * pick({1, 2, 3, 4});
  shape.head_dim = pick({32, 64, 80, 96, 128});
  shape.d_model = pick({32, 64, 96, 128});
  shape.ffn_dim = pick({32, 64, 160, 320});
  shape.seed = seed;
  const kv::Model model = kv_test::random_model(shape);
  const int prompt_len = pick({2, 16, 17, 40});
  constexpr int kSteps = 3;
  std::vector<kv::TokenId> tokens(static_cast<std::size_t>(prompt_len + kSteps));
  for (kv::TokenId& token : tokens) token = static_cast<kv::TokenId>(random() % 64);

  kv::Device& device = kv::device(kv::Backend::emulated);
  kv::DeviceAttention attention(device, model.config.heads, dtype,
                                kv::attention_steps(step, dtype));
  const kv::Math math{"device", kv::fast_math().linear, std::ref(attention)};
  kv::ContiguousCache on_cpu(model.config, prompt_len + kSteps, dtype);
  kv::DeviceCache on_device(device, model.config, prompt_len + kSteps, dtype);
  const DType product_dtype =
      kv::rounds_products(kv::AttentionStep{step}, dtype) ? dtype : DType::f32;
  Ratios ratios;
  for (int at = 0; at < prompt_len + kSteps;) {
    const int count = at == 0 ? prompt_len : 1;
    const std::span part(tokens.data() + at, static_cast<std::size_t>(count));
    const kv::RowMajor expected = kv::forward_all(model, on_cpu, part);
    const kv::RowMajor actual = kv::forward_all(model, on_device, part, nullptr, math);
    for (int r = 0; r < count; ++r) {
      const double largest = expected.row(r).cwiseAbs().maxCoeff();
      const double difference = (actual.row(r) - expected.row(r)).cwiseAbs().maxCoeff();
      const double bound = kv::logits_atol(model.config, dtype, largest, product_dtype);
      ratios.bound = std::max(ratios.bound, difference / bound);
      const double unit =
          (bound - kv::logits_atol(model.config, dtype, largest)) / kv::kProductsFactor;
      if (unit > 0.0) ratios.products = std::max(ratios.products, difference / unit);
    }
    at += count;
  }
  return ratios;
}

}  // namespace

int main() {
  constexpr unsigned kNumModels = 40;
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
    for (const int step : {3, 4, 5, 6}) {
      if (step == 4 && dtype == DType::f32) continue;
      Ratios worst;
      for (unsigned seed = 1; seed <= kNumModels; ++seed) {
        const Ratios ratios = ratios_of(seed, dtype, step);
        worst.bound = std::max(worst.bound, ratios.bound);
        worst.products = std::max(worst.products, ratios.products);
      }
      std::printf("%s cache, step %d: chapters 2 and 3 differ by %.3f of the bound",
                  kv::info(dtype).name.data(), step, worst.bound);
      if (worst.products > 0)
        std::printf("; by %.3f of its part for 16-bit products without the factor", worst.products);
      std::printf(" (%u models)\n", kNumModels);
    }
}
