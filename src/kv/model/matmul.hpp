// The linear layers: rows of activations times a weight matrix in its storage format.
#pragma once

#include <cstdint>
#include <span>

#include "kv/model/weights.hpp"

namespace kv {

/// One product of a group that shares its input.
struct Product {
  const WeightMatrix* weight = nullptr;  ///< W
  float* out = nullptr;                  ///< [num_x, weight->num_rows], written
  std::int64_t out_stride = 0;           ///< floats from one output row to the next
};

/// out[r, o] = sum_i x[r, i] * W[o, i] for every product of the group, in one parallel section
/// (Q, K and V together; gate and up together). Weights are read once in their own format and
/// widened in registers or in small tiles; sums are fp32.
///
/// \param products  each weight has num_cols columns; none may alias x
/// \param x         [num_x, num_cols]
/// \param x_stride  floats from one input row to the next
/// \param num_x     rows; 1 in decode
/// \throws std::invalid_argument when the weights of the group differ in num_cols
void multiply(std::span<const Product> products, const float* x, std::int64_t x_stride,
              std::int64_t num_x);

}  // namespace kv
