// The element-wise parts of a decoder layer.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kv/config.hpp"

namespace kv {

/// out_i = weight_i * x_i / sqrt(mean(x^2) + eps).
///
/// \param x      [dim]
/// \param weight [dim]
/// \param dim    elements
/// \param eps    added to the mean square
/// \param out    [dim], written; may be x
/// Source: Zhang & Sennrich 2019.
void rmsnorm(const float* x, const float* weight, std::int64_t dim, float eps, float* out);

/// out_i = silu(gate_i) * up_i with silu(z) = z / (1 + exp(-z)).
///
/// \param gate [dim]
/// \param up   [dim]
/// \param dim  elements
/// \param out  [dim], written; may be gate or up
/// Source: Shazeer 2020 (SwiGLU).
void swiglu(const float* gate, const float* up, std::int64_t dim, float* out);

/// The rotations of the rows of one pass: cosine and sine of every (row, pair).
///
/// Pair i of a head is its elements (2i, 2i + 1): interleaved, as in GGUF's llama architecture. At
/// position p it turns by p * base^(-2i / rope_dim) / factor_i; elements from rope_dim on stay.
/// Source: Su et al. 2021.
class RopeTable {
 public:
  /// \param config    rope_dim and rope_base are read
  /// \param factors   [rope_dim / 2] divisors of the frequencies, or empty for none
  /// \param positions [num_rows] position of each row; angles are computed in double
  RopeTable(const ModelConfig& config, std::span<const float> factors,
            std::span<const std::int64_t> positions);

  /// Rotates one row in place.
  ///
  /// \param heads     [num_heads, head_dim]
  /// \param num_heads heads of the row
  /// \param head_dim  elements of one head
  /// \param row       index into the positions
  void rotate(float* heads, int num_heads, int head_dim, std::int64_t row) const;

 private:
  std::int64_t num_pairs_ = 0;
  std::vector<float> cos_;  // [num_rows, num_pairs]
  std::vector<float> sin_;  // [num_rows, num_pairs]
};

}  // namespace kv
