// Comparing an attention with the oracle, within what fp32 arithmetic allows.
#pragma once

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <limits>
#include <span>

#include "kv/attention/reference.hpp"

namespace kv_test {

/// Allowed |actual - expected| for fp32 attention.
///
/// A score is a rounded sum, so its error follows the sum of |terms|, not the score itself, which
/// may cancel to near zero. exp() turns it into a relative error of the weight, and each output is
/// a weighted mean of v.
///
/// \param score_mass    max over keys of scale * sum_d |q[d] * k[d]|
/// \param max_abs_value max |v|
inline double attention_atol(double score_mass, double max_abs_value) {
  return 4.0 * std::numeric_limits<float>::epsilon() * std::max(1.0, score_mass) * max_abs_value;
}

/// Every element within `atol`; a NaN fails.
inline void require_close(std::span<const float> actual, std::span<const double> expected,
                          double atol) {
  REQUIRE(actual.size() == expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    if (actual[i] == expected[i]) continue;  // also -inf
    INFO("index " << i << ": actual " << actual[i] << ", expected " << expected[i]);
    REQUIRE(std::fabs(actual[i] - expected[i]) <= atol);
  }
}

}  // namespace kv_test
