// The linear layers: rows of activations times weight matrices.
#pragma once

#include <functional>
#include <span>

#include "kv/model/weights.hpp"
#include "kv/tensor.hpp"

namespace kv {

/// One linear layer: y = x W^T.
struct Product {
  const WeightMatrix* weight = nullptr;  ///< W [num_rows, num_cols]
  RowMajor* y = nullptr;                 ///< [x.rows(), num_rows], written; not x
};

/// y[r, o] = sum_i x[r, i] * W[o, i] for every product of a group that shares its input
/// x [num_x, num_cols] (Q, K and V together; gate and up together).
/// \throws std::invalid_argument when a product's shapes do not fit x
using Linear = std::function<void(std::span<const Product> group, const RowMajor& x)>;

/// \throws std::invalid_argument when a product's shapes do not fit x
void check_shapes(std::span<const Product> group, const RowMajor& x);

/// Gives every matrix of the model its numbers as floats, WeightMatrix::floats: what plain::linear
/// multiplies. Formats with fewer bytes take that memory a second time; F32 is used as it lies.
void widen_weights(Model& model);

}  // namespace kv

/// The path that is read: Eigen, a few lines for each mechanism.
namespace kv::plain {

/// A Linear by Eigen's matrix product; each thread of the team computes output columns of its own.
/// \param group products whose weights have floats (widen_weights)
/// \param x     [num_x, num_cols]
/// \throws std::invalid_argument when shapes do not fit, or a weight has no floats
void linear(std::span<const Product> group, const RowMajor& x);

}  // namespace kv::plain
