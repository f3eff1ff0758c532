// The whole decoder in double precision, no cache, no threads: what forward() is compared with.
#pragma once

#include <cmath>
#include <span>
#include <vector>

#include "kv/attention/reference.hpp"
#include "kv/model/dequantize.hpp"
#include "kv/model/weights.hpp"
#include "kv/tensor.hpp"

namespace kv_test {

using kv::Model, kv::ModelConfig, kv::LayerWeights, kv::WeightMatrix, kv::TokenId;

using Row = std::vector<double>;

inline Row times(const WeightMatrix& w, const Row& x) {
  Row y(w.num_rows, 0.0);
  std::vector<float> weights(w.num_cols);
  for (std::int64_t o = 0; o < w.num_rows; ++o) {
    kv::dequantize_row(w, o, weights);
    for (std::int64_t i = 0; i < w.num_cols; ++i) y[o] += weights[i] * x[i];
  }
  return y;
}

inline Row normed(const Row& x, const std::vector<float>& weight, double eps) {
  double sum = 0.0;
  for (const double value : x) sum += value * value;
  const double scale = 1.0 / std::sqrt(sum / static_cast<double>(x.size()) + eps);
  Row y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = x[i] * scale * weight[i];
  return y;
}

// Pair i = elements (2i, 2i + 1) of each head turns by position * base^(-2i / rope_dim) / factor_i.
inline void rotate(Row& heads, const Model& model, std::int64_t position) {
  const ModelConfig& c = model.config;
  for (std::size_t head = 0; head < heads.size(); head += c.heads.head_dim)
    for (int i = 0; i < c.rope_dim / 2; ++i) {
      double frequency = std::pow(double{c.rope_base}, -2.0 * i / c.rope_dim);
      if (!model.rope_factors.empty()) frequency /= model.rope_factors[i];
      const double angle = static_cast<double>(position) * frequency;
      double& a = heads[head + 2 * i];
      double& b = heads[head + 2 * i + 1];
      const double turned = a * std::cos(angle) - b * std::sin(angle);
      b = a * std::sin(angle) + b * std::cos(angle);
      a = turned;
    }
}

inline void append(std::vector<float>& rows, const Row& row) {
  rows.insert(rows.end(), row.begin(), row.end());
}

/// Logits [tokens.size()][vocab_size] of every position. The only roundings to float are those of
/// q, k and v on their way into the attention oracle.
inline std::vector<Row> reference_forward(const Model& model, std::span<const TokenId> tokens) {
  const ModelConfig& c = model.config;
  const auto num_rows = static_cast<std::int64_t>(tokens.size());
  std::vector<Row> x;
  for (const TokenId token : tokens) {
    std::vector<float> row(c.d_model);
    kv::dequantize_row(model.token_embedding, token, row);
    x.emplace_back(row.begin(), row.end());
  }
  for (const LayerWeights& layer : model.layers) {
    std::vector<float> q, k, v;
    for (std::int64_t t = 0; t < num_rows; ++t) {
      const Row y = normed(x[t], layer.attn_norm, c.norm_eps);
      Row q_row = times(layer.q, y), k_row = times(layer.k, y);
      rotate(q_row, model, t);
      rotate(k_row, model, t);
      append(q, q_row);
      append(k, k_row);
      append(v, times(layer.v, y));
    }
    const kv::ReferenceAttention attention =
        kv::reference_attention(q.data(), k.data(), v.data(), c.heads, num_rows, num_rows,
                                1.0 / std::sqrt(c.heads.head_dim));
    for (std::int64_t t = 0; t < num_rows; ++t) {
      const auto first = attention.out.begin() + t * c.heads.q_dim();
      const Row delta = times(layer.o, Row(first, first + c.heads.q_dim()));
      for (int i = 0; i < c.d_model; ++i) x[t][i] += delta[i];
      const Row y = normed(x[t], layer.ffn_norm, c.norm_eps);
      const Row gate = times(layer.gate, y), up = times(layer.up, y);
      Row inner(c.ffn_dim);
      for (int i = 0; i < c.ffn_dim; ++i) inner[i] = gate[i] / (1.0 + std::exp(-gate[i])) * up[i];
      const Row down = times(layer.down, inner);
      for (int i = 0; i < c.d_model; ++i) x[t][i] += down[i];
    }
  }
  std::vector<Row> logits;
  for (const Row& row : x)
    logits.push_back(times(model.output, normed(row, model.output_norm, c.norm_eps)));
  return logits;
}

}  // namespace kv_test
