// The linear layers as fast as memory or arithmetic allow: the same results as plain::linear.
#pragma once

#include <span>

#include "kv/model/linear.hpp"

namespace kv::fast {

/// A Linear that reads weights in their own format, a group in one parallel section. Few rows of x
/// (decode) meet each weight in registers; for many (prefill), panels of weights are widened for
/// Eigen's product. Sums are fp32.
void linear(std::span<const Product> group, const RowMajor& x);

}  // namespace kv::fast
