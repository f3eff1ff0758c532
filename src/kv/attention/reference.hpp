// The oracle: attention in double precision, two passes, no cleverness.
#pragma once

#include <cstdint>
#include <vector>

#include "kv/config.hpp"

namespace kv {

/// What the oracle returns, and what a tolerance needs to know.
struct ReferenceAttention {
  std::vector<double> out;   ///< [q_len, num_q_heads, head_dim]
  std::vector<double> lse;   ///< [q_len, num_q_heads], natural log; -inf where no key is seen
  double score_mass = 0.0;   ///< max over visible (query, key) of scale * sum_d |q_d * k_d|
  double max_abs_value = 0;  ///< max |v| over visible rows
};

/// Every other attention of the course is compared with this one.
///
/// \param q      [q_len, num_q_heads, head_dim]
/// \param k      [kv_len, num_kv_heads, head_dim]
/// \param v      same shape as k
/// \param causal true: row t sees keys j <= t + kv_len - q_len; false: all keys
ReferenceAttention reference_attention(const float* q, const float* k, const float* v,
                                       const HeadConfig& heads, std::int64_t q_len,
                                       std::int64_t kv_len, double scale, bool causal = true);

}  // namespace kv
