// The oracle: attention in double precision, two passes, no cleverness. It calls nothing that is an
// exercise.
#pragma once

#include <cstdint>
#include <span>
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

/// K and V of one KV head: row j of each has head_dim elements and starts at `j * row_stride`.
struct HeadRows {
  const float* k = nullptr;     ///< first row of K
  const float* v = nullptr;     ///< first row of V
  std::int64_t num_rows = 0;    ///< tokens
  std::int64_t row_stride = 0;  ///< elements from one row to the next, at least head_dim
};

/// Attention of one query row of one head over all rows of `keys`, in two passes:
/// \f$ s_j = \mathrm{scale} \sum_d q_d k_{jd} \f$ and their maximum m, then
/// \f$ \mathrm{out} = \sum_j e^{s_j - m} v_j / \sum_j e^{s_j - m} \f$.
///
/// \param q     [head_dim]
/// \param keys  at least one row
/// \param scale factor on q.k
/// \param out   [head_dim], written
/// \return log-sum-exp of the scores, natural log: \f$ m + \ln \sum_j e^{s_j - m} \f$
double reference_row(std::span<const float> q, const HeadRows& keys, double scale,
                     std::span<double> out);

/// Every other attention of the course is compared with this one.
///
/// \param q      [q_len, num_q_heads, head_dim]
/// \param k      [kv_len, num_kv_heads, head_dim]
/// \param v      same shape as k
/// \param heads  head geometry; query head h reads KV head h / group_size
/// \param q_len  query rows; may be 0
/// \param kv_len keys; more query rows than keys leave the first rows without any
/// \param scale  factor on q.k, normally 1 / sqrt(head_dim)
/// \param causal true: row t sees keys j <= t + kv_len - q_len; false: all keys
ReferenceAttention reference_attention(const float* q, const float* k, const float* v,
                                       const HeadConfig& heads, std::int64_t q_len,
                                       std::int64_t kv_len, double scale, bool causal = true);

}  // namespace kv
