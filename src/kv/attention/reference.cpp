#include "kv/attention/reference.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kv/check.hpp"

namespace kv {

namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

// Adds what a tolerance needs to know of one query row.
void measure(std::span<const float> q, const HeadRows& keys, double scale,
             ReferenceAttention& result) {
  for (std::int64_t j = 0; j < keys.num_rows; ++j) {
    const float* k = keys.k + j * keys.row_stride;
    const float* v = keys.v + j * keys.row_stride;
    double mass = 0.0;
    for (std::size_t d = 0; d < q.size(); ++d) {
      mass += std::fabs(static_cast<double>(q[d]) * k[d]);
      result.max_abs_value = std::max(result.max_abs_value, std::fabs(double{v[d]}));
    }
    result.score_mass = std::max(result.score_mass, mass * std::fabs(scale));
  }
}

}  // namespace

double reference_row(std::span<const float> q, const HeadRows& keys, double scale,
                     std::span<double> out) {
  // First pass: s_j = scale * sum_d q[d] * k[j, d], and their maximum.
  std::vector<double> scores(keys.num_rows, 0.0);
  for (std::int64_t j = 0; j < keys.num_rows; ++j) {
    const float* k = keys.k + j * keys.row_stride;
    for (std::size_t d = 0; d < q.size(); ++d) scores[j] += static_cast<double>(q[d]) * k[d];
    scores[j] *= scale;
  }
  const double max_score = *std::max_element(scores.begin(), scores.end());

  // Second pass: out = sum_j exp(s_j - max) v_j / sum_j exp(s_j - max).
  double sum = 0.0;
  std::fill(out.begin(), out.end(), 0.0);
  for (std::int64_t j = 0; j < keys.num_rows; ++j) {
    const float* v = keys.v + j * keys.row_stride;
    const double weight = std::exp(scores[j] - max_score);
    sum += weight;
    for (std::size_t d = 0; d < q.size(); ++d) out[d] += weight * v[d];
  }
  for (double& element : out) element /= sum;
  return max_score + std::log(sum);
}

ReferenceAttention reference_attention(const float* q, const float* k, const float* v,
                                       const HeadConfig& heads, std::int64_t q_len,
                                       std::int64_t kv_len, double scale, bool causal) {
  heads.validate();
  require(q_len >= 0 && kv_len >= 0, "lengths must not be negative");
  const std::int64_t head_dim = heads.head_dim;
  ReferenceAttention result;
  result.out.assign(q_len * heads.q_dim(), 0.0);
  result.lse.assign(q_len * heads.num_q_heads, kMinusInfinity);

  // The mask and the KV head are written out here: num_visible_keys() and kv_head() are exercises,
  // and the oracle must not change when a reader writes them.
  const std::int64_t group_size = heads.num_q_heads / heads.num_kv_heads;
  for (std::int64_t t = 0; t < q_len; ++t) {
    const std::int64_t num_visible = causal ? t + 1 + kv_len - q_len : kv_len;
    for (std::int64_t h = 0; h < heads.num_q_heads && num_visible > 0; ++h) {
      const std::int64_t head = h / group_size * head_dim;  // where its KV head begins
      const HeadRows keys{k + head, v + head, num_visible, heads.kv_dim()};
      const std::int64_t row = t * heads.num_q_heads + h;
      const std::span q_row(q + row * head_dim, heads.head_dim);
      const std::span out(result.out.data() + row * head_dim, heads.head_dim);
      result.lse[row] = reference_row(q_row, keys, scale, out);
      measure(q_row, keys, scale, result);
    }
  }
  return result;
}

}  // namespace kv
