// Which code computes what costs time.
#pragma once

#include <string_view>

#include "kv/attention/attention.hpp"
#include "kv/model/linear.hpp"

namespace kv {

//! [math]
/// The linear layers and attention of a pass: nearly all its time. Everything else is the same.
struct Math {
  std::string_view name;  ///< as --math takes it
  Linear linear;          ///< for every weight matrix
  Attention attention;    ///< for every layer
};
//! [math]

/// The path that is read: Eigen, a few lines each (model/linear.cpp, attention/plain.cpp). The
/// model's weights must have been widened (widen_weights).
const Math& plain_math();

/// The path that is fast: the same results, up to rounding, by the code in src/kv/fast.
const Math& fast_math();

/// \param name plain or fast
/// \throws InputError naming --math for any other name
const Math& math_named(std::string_view name);

}  // namespace kv
