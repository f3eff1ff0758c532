#include "kv/attention/reference.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kv/check.hpp"

namespace kv {

namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

}  // namespace

ReferenceAttention reference_attention(const float* q, const float* k, const float* v,
                                       const HeadConfig& heads, std::int64_t q_len,
                                       std::int64_t kv_len, double scale, bool causal) {
  heads.validate();
  require(q_len >= 0 && kv_len >= 0, "lengths must not be negative");
  const std::int64_t head_dim = heads.head_dim;
  ReferenceAttention result;
  result.out.assign(q_len * heads.q_dim(), 0.0);
  result.lse.assign(q_len * heads.num_q_heads, kMinusInfinity);

  std::vector<double> scores;
  for (std::int64_t t = 0; t < q_len; ++t) {
    // Bottom-right aligned: the last query row sees every key.
    const std::int64_t num_visible =
        causal ? std::clamp<std::int64_t>(t + kv_len - q_len + 1, 0, kv_len) : kv_len;
    for (std::int64_t h = 0; h < heads.num_q_heads && num_visible > 0; ++h) {
      const std::int64_t g = h / heads.group_size();
      const float* q_row = q + (t * heads.num_q_heads + h) * head_dim;

      // First pass: s_j = scale * sum_d q[t, h, d] * k[j, g, d], and their maximum.
      scores.assign(num_visible, 0.0);
      double max_score = kMinusInfinity;
      for (std::int64_t j = 0; j < num_visible; ++j) {
        const float* k_row = k + (j * heads.num_kv_heads + g) * head_dim;
        double mass = 0.0;
        for (std::int64_t d = 0; d < head_dim; ++d) {
          const double product = static_cast<double>(q_row[d]) * k_row[d];
          scores[j] += product;
          mass += std::fabs(product);
        }
        scores[j] *= scale;
        max_score = std::max(max_score, scores[j]);
        result.score_mass = std::max(result.score_mass, mass * std::fabs(scale));
      }

      // Second pass: out = sum_j exp(s_j - max) v_j / sum_j exp(s_j - max).
      double sum = 0.0;
      double* out = result.out.data() + (t * heads.num_q_heads + h) * head_dim;
      for (std::int64_t j = 0; j < num_visible; ++j) {
        const double weight = std::exp(scores[j] - max_score);
        const float* v_row = v + (j * heads.num_kv_heads + g) * head_dim;
        sum += weight;
        for (std::int64_t d = 0; d < head_dim; ++d) {
          out[d] += weight * v_row[d];
          result.max_abs_value = std::max(result.max_abs_value, std::fabs(double{v_row[d]}));
        }
      }
      for (std::int64_t d = 0; d < head_dim; ++d) out[d] /= sum;
      result.lse[t * heads.num_q_heads + h] = max_score + std::log(sum);
    }
  }
  return result;
}

}  // namespace kv
