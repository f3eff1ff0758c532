// Softmax over scores that arrive one at a time or in parts.
//
// Source: Milakov & Gimelshein 2018, algorithm 3; the merge of two parts is the same step with a
// whole part in the place of one score.
#pragma once

#include <cmath>

#ifndef KV_HD
#ifdef __CUDACC__
#define KV_HD __host__ __device__
#else
#define KV_HD
#endif
#endif

namespace kv {

/// Running softmax statistics over the keys seen so far.
/// \f$ m = \max_j s_j,\quad l = \sum_j e^{s_j - m} \f$.  An empty state is (-inf, 0).
struct OnlineSoftmax {
  float m = -INFINITY;  ///< largest score so far
  float l = 0.0f;       ///< sum of exponentials relative to m

  /// Takes in one more score.
  ///
  /// \param score scaled q.k; -inf when masked
  /// \return the factor for everything accumulated so far; NaN from a NaN on
  KV_HD float push(float score);

  /// Natural log of the softmax denominator; -inf when no key was seen, NaN when one score was.
  KV_HD float log_sum_exp() const { return l == 0.0f ? -INFINITY : m + logf(l); }
};

/// The two factors with which finished (normalised) parts a and b make up the whole:
/// out = a * out_a + b * out_b. Both are 0 when both parts are empty.
struct MergeFactors {
  float a = 0.0f;         ///< factor of the output of part a
  float b = 0.0f;         ///< factor of the output of part b
  float lse = -INFINITY;  ///< of the whole, natural log
};

/// Merges two parts by their log-sum-exp (natural log), lse_a and lse_b. The empty part, lse =
/// -inf, is neutral.
KV_HD MergeFactors merge_factors(float lse_a, float lse_b);

// Inline, since kernels push every score. Who links definitions of their own leaves these out.
#ifndef KV_OWN_ONLINE_SOFTMAX
//! [push]
KV_HD inline float OnlineSoftmax::push(float score) {
  // Nothing to add; and while the state is empty, (-inf) - (-inf) would be NaN.
  if (score == -INFINITY) return 1.0f;
  const float m_new = fmaxf(m, score);
  const float rescale = expf(m - m_new);
  l = l * rescale + expf(score - m_new);
  m = m_new;
  return rescale;
}
//! [push]

//! [merge factors]
KV_HD inline MergeFactors merge_factors(float lse_a, float lse_b) {
  const float m = fmaxf(lse_a, lse_b);
  if (m == -INFINITY) return {};
  const float a = expf(lse_a - m);
  const float b = expf(lse_b - m);
  return {a / (a + b), b / (a + b), m + logf(a + b)};
}
//! [merge factors]
#endif

}  // namespace kv
