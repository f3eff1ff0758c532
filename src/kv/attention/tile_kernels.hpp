// The three steps of attention over one tile of keys: scores, softmax, weighted values.
//
// q [num_rows, head_dim] are the queries of one KV head, all that share it: the query heads of its
// group for one or more tokens. Every K or V row that is loaded serves them all.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "kv/dtype.hpp"
#include "kv/simd/exp.hpp"
#include "kv/simd/tile.hpp"

namespace kv {

/// Keys of one tile: the scores of a tile fit the first-level cache, and softmax has a whole tile
/// to vectorise over. Source: measured (64 in most published kernels as well).
inline constexpr int kTileKeys = 64;

/// scores[r, j] = sum_d q[r, d] * k[j, d] for kRows rows and kKeys keys, each sum in lanes along d.
template <int kRows, int kKeys, class T>
inline void score_block(const float* q, int head_dim, const T* k, std::int64_t k_stride,
                        float* scores) {
  using simd::kWidth;
  simd::Vec sum[kRows][kKeys] = {};
  int d = 0;
  for (; d + kWidth <= head_dim; d += kWidth) {
    simd::Vec q_d[kRows];
    for (int r = 0; r < kRows; ++r)
      q_d[r] = simd::load(q + static_cast<std::int64_t>(r) * head_dim + d);
    for (int j = 0; j < kKeys; ++j) {
      const simd::Vec k_d = simd::load(k + j * k_stride + d);
      for (int r = 0; r < kRows; ++r) sum[r][j] += q_d[r] * k_d;
    }
  }
  for (int r = 0; r < kRows; ++r) {
    float* out = scores + r * kTileKeys;
    if constexpr (kKeys == 4) {
      const simd::Vec4 four = simd::sums(sum[r][0], sum[r][1], sum[r][2], sum[r][3]);
      std::memcpy(out, &four, sizeof four);
    } else {
      for (int j = 0; j < kKeys; ++j) out[j] = simd::sum(sum[r][j]);
    }
    for (int j = 0; j < kKeys; ++j)
      for (int i = d; i < head_dim; ++i)
        out[j] += q[static_cast<std::int64_t>(r) * head_dim + i] * to_float(k[j * k_stride + i]);
  }
}

/// scores [kRows of kTileKeys], columns [0, num_keys): K rows are read where they lie.
template <int kRows, class T>
inline void score_keys(const float* q, int head_dim, const T* k, std::int64_t k_stride,
                       int num_keys, float* scores) {
  int j = 0;
  for (; j + 4 <= num_keys; j += 4)
    score_block<kRows, 4>(q, head_dim, k + j * k_stride, k_stride, scores + j);
  for (; j < num_keys; ++j)
    score_block<kRows, 1>(q, head_dim, k + j * k_stride, k_stride, scores + j);
}

/// The same for any number of rows, three at a time (3 x 4 sums fit 16 registers).
template <class T>
inline void score_rows(const float* q, std::int64_t num_rows, int head_dim, const T* k,
                       std::int64_t k_stride, int num_keys, float* scores) {
  std::int64_t r = 0;
  for (; r + 3 <= num_rows; r += 3)
    score_keys<3>(q + r * head_dim, head_dim, k, k_stride, num_keys, scores + r * kTileKeys);
  if (num_rows - r == 2)
    score_keys<2>(q + r * head_dim, head_dim, k, k_stride, num_keys, scores + r * kTileKeys);
  if (num_rows - r == 1)
    score_keys<1>(q + r * head_dim, head_dim, k, k_stride, num_keys, scores + r * kTileKeys);
}

/// out[r, d] += sum_j p[r, j] * v[j, d] for columns [0, num_cols): as many as fill kVecs vectors at
/// a time, and so on with fewer.
///
/// \return the first column that was left for narrower steps
template <int kVecs, class T>
inline int add_values_by(std::int64_t num_rows, const float* p, const T* v, std::int64_t v_stride,
                         std::int64_t num_keys, int first_col, int num_cols, float* out,
                         std::int64_t out_stride) {
  constexpr int kStep = kVecs * simd::kWidth;
  int d = first_col;
  for (; d + kStep <= num_cols; d += kStep) {
    if constexpr (kVecs <= simd::kTileVecs) {
      simd::multiply_rows<kVecs>(num_rows, p, kTileKeys, v + d, v_stride, num_keys, out + d,
                                 out_stride, true);
    } else {  // wide and low: three rows at a time
      std::int64_t r = 0;
      for (; r + 3 <= num_rows; r += 3)
        simd::multiply_tile<3, kVecs>(p + r * kTileKeys, kTileKeys, v + d, v_stride, num_keys,
                                      out + r * out_stride + d, out_stride, true);
      for (; r < num_rows; ++r)
        simd::multiply_tile<1, kVecs>(p + r * kTileKeys, kTileKeys, v + d, v_stride, num_keys,
                                      out + r * out_stride + d, out_stride, true);
    }
  }
  return d;
}

/// out[r, d] += sum_j p[r, j] * v[j, d].
///
/// \param p        [num_rows, kTileKeys], columns [0, num_keys) are read
/// \param v        [num_keys, head_dim], rows v_stride elements apart
/// \param out      [num_rows, head_dim], rows out_stride floats apart
template <class T>
inline void add_values(std::int64_t num_rows, const float* p, const T* v, std::int64_t v_stride,
                       std::int64_t num_keys, int head_dim, float* out, std::int64_t out_stride) {
  if (num_keys == 0) return;
  int d = 0;
  if (num_rows <= 3)  // few rows leave registers free: use them for columns
    d = add_values_by<4>(num_rows, p, v, v_stride, num_keys, d, head_dim, out, out_stride);
  d = add_values_by<2>(num_rows, p, v, v_stride, num_keys, d, head_dim, out, out_stride);
  d = add_values_by<1>(num_rows, p, v, v_stride, num_keys, d, head_dim, out, out_stride);
  for (; d < head_dim; ++d)
    for (std::int64_t r = 0; r < num_rows; ++r)
      for (std::int64_t j = 0; j < num_keys; ++j)
        out[r * out_stride + d] += p[r * kTileKeys + j] * to_float(v[j * v_stride + d]);
}

/// One row of a tile through the online softmax.
///
/// \param scores    [kTileKeys] unscaled scores; columns [0, num_visible) become exp(s - m)
/// \param num_visible keys of this tile that the row sees; the others are not looked at
/// \param scale     factor on the scores
/// \param m         largest scaled score so far, updated
/// \param l         sum of exponentials relative to m, updated
/// \return the factor for everything accumulated so far; 1 when m has not changed
inline float softmax_tile(float* scores, int num_visible, float scale, float& m, float& l) {
  using simd::kWidth;
  using simd::Vec;
  constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
  simd::IntVec lane;
  for (int n = 0; n < kWidth; ++n) lane[n] = n;
  Vec largest = simd::broadcast(kMinusInfinity);
  const Vec minus_infinity = largest;
  for (int j = 0; j < num_visible; j += kWidth) {
    const Vec s = lane < num_visible - j ? simd::load(scores + j) * scale : minus_infinity;
    simd::store(scores + j, s);
    largest = simd::max(s, largest);
  }
  const float m_new = std::max(m, simd::max_lane(largest));
  // While every score is -inf, nothing is subtracted: (-inf) - (-inf) would be NaN.
  const float shift = m_new == kMinusInfinity ? 0.0f : m_new;
  Vec sum = {};
  for (int j = 0; j < num_visible; j += kWidth) {
    const Vec p = simd::exp(simd::load(scores + j) - shift);
    simd::store(scores + j, p);
    sum += p;
  }
  const float rescale = m_new == m ? 1.0f : simd::exp(simd::broadcast(m - shift))[0];
  l = l * rescale + simd::sum(sum);
  m = m_new;
  return rescale;
}

}  // namespace kv
