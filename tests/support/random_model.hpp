// A model with random weights in any shape, for tests that need a decoder but no language.
//
// Matrix elements have variance 1 / num_cols, norms are near 1 and embedding elements have
// variance 1, so activations and logits stay of order 1 in every shape and depth.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "kv/check.hpp"
#include "kv/model/weights.hpp"

namespace kv_test {

/// What to build; a size of 0 takes the default in brackets.
struct RandomModelShape {
  int num_layers = 2;
  int num_q_heads = 4;
  int num_kv_heads = 2;
  int head_dim = 16;
  int d_model = 0;   ///< [num_q_heads * head_dim]
  int ffn_dim = 0;   ///< [2 * d_model]
  int rope_dim = 0;  ///< [head_dim]; even
  int vocab_size = 64;
  int context_length = 128;
  kv::DType dtype = kv::DType::f32;  ///< of every matrix: f32, f16, bf16 or q8_0 (widths % 32 == 0)
  bool tied = true;                  ///< the output is the embedding
  std::uint32_t seed = 1;
};

/// Stores floats in one of the formats f32, f16, bf16, q8_0.
///
/// \param values whole blocks; q8_0 rounds to 255 steps between -max and max of each block
/// \param out    values.size() / block_elements * block_bytes bytes, written
inline void quantize(kv::DType dtype, std::span<const float> values, std::byte* out) {
  const auto store = [&out](auto x) {
    std::memcpy(out, &x, sizeof(x));
    out += sizeof(x);
  };
  switch (dtype) {
    case kv::DType::f32:
      for (const float x : values) store(x);
      return;
    case kv::DType::f16:
      for (const float x : values) store(kv::to_f16(x));
      return;
    case kv::DType::bf16:
      for (const float x : values) store(kv::to_bf16(x));
      return;
    case kv::DType::q8_0:
      kv::require(values.size() % 32 == 0, "Q8_0 stores whole blocks of 32");
      for (std::size_t first = 0; first < values.size(); first += 32) {
        float max = 0.0f;
        for (const float x : values.subspan(first, 32)) max = std::max(max, std::fabs(x));
        const kv::f16 scale = kv::to_f16(max / 127.0f);
        store(scale);
        // Divide by the scale as stored, and clamp: rounding it down makes max / scale exceed 127.
        const float d = kv::to_float(scale);
        for (const float x : values.subspan(first, 32))
          store(static_cast<std::int8_t>(d > 0.0f ? std::clamp(std::round(x / d), -127.0f, 127.0f)
                                                  : 0.0f));
      }
      return;
    default:
      kv::require(false, "random weights are stored as f32, f16, bf16 or q8_0");
  }
}

/// The same numbers on every machine and library: only the raw output of the generator is used.
class RandomWeights {
 public:
  explicit RandomWeights(std::uint32_t seed) : generator_(seed) {}

  /// Uniform with mean 0 and the given standard deviation.
  float next(float deviation) {
    const float unit = static_cast<float>(generator_() >> 8) * 0x1p-24f;  // [0, 1), 24 bits
    return (2.0f * unit - 1.0f) * std::sqrt(3.0f) * deviation;
  }

  std::vector<float> norm(int length) {
    std::vector<float> values(static_cast<std::size_t>(length));
    for (float& x : values) x = 1.0f + next(0.1f);
    return values;
  }

  /// A matrix [num_rows, num_cols] whose bytes are added to the model's storage.
  kv::WeightMatrix matrix(kv::Model& model, kv::DType dtype, int num_rows, int num_cols,
                          float deviation) {
    kv::require(num_cols % kv::info(dtype).block_elements == 0, "rows must be whole blocks");
    std::vector<float> values(static_cast<std::size_t>(num_rows) *
                              static_cast<std::size_t>(num_cols));
    for (float& x : values) x = next(deviation);
    kv::WeightMatrix w{dtype, num_rows, num_cols, nullptr};
    auto bytes = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(w.bytes()));
    quantize(dtype, values, bytes->data());
    w.data = bytes->data();
    model.storage.push_back(std::move(bytes));
    return w;
  }

  kv::WeightMatrix matrix(kv::Model& model, kv::DType dtype, int num_rows, int num_cols) {
    return matrix(model, dtype, num_rows, num_cols, 1.0f / std::sqrt(static_cast<float>(num_cols)));
  }

 private:
  std::mt19937 generator_;
};

/// Builds the model; the same shape and seed give the same weights.
inline kv::Model random_model(const RandomModelShape& shape = {}) {
  const auto or_default = [](int size, int fallback) { return size > 0 ? size : fallback; };
  kv::Model model;
  kv::ModelConfig& c = model.config;
  c.name = "random";
  c.heads = {shape.num_q_heads, shape.num_kv_heads, shape.head_dim};
  c.d_model = or_default(shape.d_model, c.heads.q_dim());
  c.ffn_dim = or_default(shape.ffn_dim, 2 * c.d_model);
  c.rope_dim = or_default(shape.rope_dim, shape.head_dim);
  c.num_layers = shape.num_layers;
  c.vocab_size = shape.vocab_size;
  c.context_length = shape.context_length;
  c.validate();

  RandomWeights random(shape.seed);
  const kv::DType dtype = shape.dtype;
  model.token_embedding = random.matrix(model, dtype, c.vocab_size, c.d_model, 1.0f);
  for (int l = 0; l < c.num_layers; ++l) {
    kv::LayerWeights w;
    w.attn_norm = random.norm(c.d_model);
    w.q = random.matrix(model, dtype, c.heads.q_dim(), c.d_model);
    w.k = random.matrix(model, dtype, c.heads.kv_dim(), c.d_model);
    w.v = random.matrix(model, dtype, c.heads.kv_dim(), c.d_model);
    w.o = random.matrix(model, dtype, c.d_model, c.heads.q_dim());
    w.ffn_norm = random.norm(c.d_model);
    w.gate = random.matrix(model, dtype, c.ffn_dim, c.d_model);
    w.up = random.matrix(model, dtype, c.ffn_dim, c.d_model);
    w.down = random.matrix(model, dtype, c.d_model, c.ffn_dim);
    model.layers.push_back(std::move(w));
  }
  model.output_norm = random.norm(c.d_model);
  model.output =
      shape.tied ? model.token_embedding : random.matrix(model, dtype, c.vocab_size, c.d_model);
  return model;
}

}  // namespace kv_test
