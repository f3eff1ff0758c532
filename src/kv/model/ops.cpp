#include "kv/model/ops.hpp"

#include <cmath>

#include "kv/check.hpp"
#include "kv/fast/exp.hpp"

namespace kv {

void rmsnorm(const float* x, const float* weight, std::int64_t dim, float eps, float* out) {
  float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < dim; ++i) sum += x[i] * x[i];
  const float factor = 1.0f / std::sqrt(sum / static_cast<float>(dim) + eps);
  for (std::int64_t i = 0; i < dim; ++i) out[i] = weight[i] * (x[i] * factor);
}

namespace {

simd::Vec silu(simd::Vec z) { return z / (1.0f + simd::exp(-z)); }

}  // namespace

void swiglu(const float* gate, const float* up, std::int64_t dim, float* out) {
  constexpr int kWidth = simd::kWidth;
  std::int64_t i = 0;
  for (; i + kWidth <= dim; i += kWidth)
    simd::store(out + i, silu(simd::load(gate + i)) * simd::load(up + i));
  for (; i < dim; ++i) out[i] = silu(simd::broadcast(gate[i]))[0] * up[i];
}

RopeTable::RopeTable(const ModelConfig& config, std::span<const float> factors,
                     std::span<const std::int64_t> positions)
    : num_pairs_(config.rope_dim / 2) {
  require(config.rope_dim % 2 == 0, "rope_dim must be even");
  require(factors.empty() || static_cast<std::int64_t>(factors.size()) == num_pairs_,
          "there must be one frequency factor per pair, or none");
  std::vector<double> frequencies(num_pairs_);
  for (std::int64_t i = 0; i < num_pairs_; ++i) {
    frequencies[i] = std::pow(static_cast<double>(config.rope_base), -2.0 * i / config.rope_dim);
    if (!factors.empty()) frequencies[i] /= factors[i];
  }
  cos_.reserve(positions.size() * num_pairs_);
  sin_.reserve(positions.size() * num_pairs_);
  for (const std::int64_t position : positions) {
    for (const double frequency : frequencies) {
      // In float, position 1e6 times frequency 1 would be off by up to 0.03 radians.
      const double angle = static_cast<double>(position) * frequency;
      cos_.push_back(static_cast<float>(std::cos(angle)));
      sin_.push_back(static_cast<float>(std::sin(angle)));
    }
  }
}

void RopeTable::rotate(float* heads, int num_heads, int head_dim, std::int64_t row) const {
  const float* cosines = cos_.data() + row * num_pairs_;
  const float* sines = sin_.data() + row * num_pairs_;
  for (int h = 0; h < num_heads; ++h) {
    float* head = heads + static_cast<std::int64_t>(h) * head_dim;
    for (std::int64_t i = 0; i < num_pairs_; ++i) {
      const float x = head[2 * i], y = head[2 * i + 1];
      head[2 * i] = x * cosines[i] - y * sines[i];
      head[2 * i + 1] = x * sines[i] + y * cosines[i];
    }
  }
}

}  // namespace kv
