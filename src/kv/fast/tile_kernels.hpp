// The three steps of attention over one tile of keys: scores, softmax, weighted values.
//
// q [num_rows, head_dim] are the queries of one KV head, all that share it: the query heads of its
// group for one or more tokens. Every K or V row that is loaded serves them all.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

#include "kv/dtype.hpp"
#include "kv/fast/exp.hpp"
#include "kv/fast/tile.hpp"

namespace kv::fast {

/// Keys of one tile: the scores of a tile fit the first-level cache, and softmax has a whole tile
/// to vectorise over. Source: measured (64 in most published kernels as well).
inline constexpr int kTileKeys = 64;

/// Asks for `bytes` bytes of K or V from `row` on that are read a tile later. Into the second-level
/// cache: the first one cannot hold a tile.
inline void prefetch_row(const void* row, std::int64_t bytes) {
  constexpr std::int64_t kLine = 64;
  for (std::int64_t at = 0; at < bytes; at += kLine)
    __builtin_prefetch(static_cast<const char*>(row) + at, 0, 2);
}

/// scores[r, j] += sum_d q[r, d] * k[j][d] over the columns [first, head_dim) that fill no vector.
/// Apart, so that the common case stays small enough to be inlined and keeps its sums in registers.
///
/// \param q        [num_rows, head_dim]
/// \param first    first element that is left
/// \param head_dim elements of a row
/// \param k        num_keys rows of [head_dim]
/// \param num_rows query rows
/// \param num_keys keys
/// \param scores   [num_rows, kTileKeys], added to
template <class T>
[[gnu::noinline]] void add_score_tails(const float* q, int first, int head_dim, const T* const* k,
                                       int num_rows, int num_keys, float* scores) {
  for (int r = 0; r < num_rows; ++r)
    for (int j = 0; j < num_keys; ++j)
      for (int d = first; d < head_dim; ++d)
        scores[r * kTileKeys + j] +=
            q[static_cast<std::int64_t>(r) * head_dim + d] * to_float(k[j][d]);
}

/// scores[r, j] = sum_d q[r, d] * k[j][d] for kRows rows and kKeys keys of head_dim elements, each
/// sum in lanes along d.
template <int kRows, std::size_t kKeys, class T>
inline void score_block(const float* q, int head_dim, const std::array<const T*, kKeys>& k,
                        float* scores) {
  using simd::kWidth;
  simd::Vec sum[kRows][kKeys] = {};
  int d = 0;
  for (; d + kWidth <= head_dim; d += kWidth) {
    simd::Vec q_d[kRows];
    for (int r = 0; r < kRows; ++r)
      q_d[r] = simd::load(q + static_cast<std::int64_t>(r) * head_dim + d);
    for (std::size_t j = 0; j < kKeys; ++j) {
      const simd::Vec k_d = simd::load(k[j] + d);
      for (int r = 0; r < kRows; ++r) sum[r][j] += q_d[r] * k_d;
    }
  }
  for (int r = 0; r < kRows; ++r) {
    float* out = scores + r * kTileKeys;
    if constexpr (kKeys == 4) {
      const simd::Vec4 four = simd::sums(sum[r][0], sum[r][1], sum[r][2], sum[r][3]);
      std::memcpy(out, &four, sizeof four);
    } else {
      for (std::size_t j = 0; j < kKeys; ++j) out[j] = simd::sum(sum[r][j]);
    }
  }
  if (d < head_dim) add_score_tails(q, d, head_dim, k.data(), kRows, kKeys, scores);
}

/// score_block for any number of rows, three at a time (3 x 4 sums fit 16 registers).
///
/// \param q        [num_rows, head_dim]
/// \param num_rows query rows, any number
/// \param head_dim elements of a row
/// \param k        a row each
/// \param ahead    rows that will be read later, asked for meanwhile
/// \param scores   [num_rows, kTileKeys], columns [0, kKeys) are written
template <std::size_t kKeys, class T>
inline void score_rows(const float* q, std::int64_t num_rows, int head_dim,
                       const std::array<const T*, kKeys>& k,
                       const std::array<const T*, kKeys>& ahead, float* scores) {
  for (const T* row : ahead) prefetch_row(row, head_dim * std::int64_t{sizeof(T)});
  for (std::int64_t r = 0; r < num_rows; r += 3) {
    const float* q_r = q + r * head_dim;
    float* scores_r = scores + r * kTileKeys;
    if (num_rows - r >= 3) {
      score_block<3>(q_r, head_dim, k, scores_r);
    } else if (num_rows - r == 2) {
      score_block<2>(q_r, head_dim, k, scores_r);
    } else {
      score_block<1>(q_r, head_dim, k, scores_r);
    }
  }
}

/// out[r, d] += sum_i sum_n p[r, i * kRuns + n] * v[n][i, d] for kRows rows and kVecs vectors of
/// columns. V lies in kRuns runs of rows, from which rows are taken in turn.
///
/// \param p          [kRows, kTileKeys] weights
/// \param v          first rows of the runs
/// \param ahead      runs that will be read later, asked for meanwhile
/// \param first      first column
/// \param stride     elements between two rows of a run
/// \param run_keys   keys of each run
/// \param out        [kRows, kVecs * kWidth] at column `first`, added to
/// \param out_stride floats between two rows of out
template <int kRows, int kVecs, std::size_t kRuns, class T>
inline void value_block(const float* p, const std::array<const T*, kRuns>& v,
                        const std::array<const T*, kRuns>& ahead, int first, std::int64_t stride,
                        int run_keys, float* out, std::int64_t out_stride) {
  using simd::kWidth;
  simd::Vec sum[kRows][kVecs];
  for (int r = 0; r < kRows; ++r)
    for (int c = 0; c < kVecs; ++c) sum[r][c] = simd::load(out + r * out_stride + c * kWidth);
  for (int i = 0; i < run_keys; ++i) {
    for (std::size_t n = 0; n < kRuns; ++n) {
      const T* row = v[n] + i * stride + first;
      prefetch_row(ahead[n] + i * stride + first, kVecs * kWidth * std::int64_t{sizeof(T)});
      simd::Vec p_j[kRows];
      for (int r = 0; r < kRows; ++r) p_j[r] = simd::broadcast(p[r * kTileKeys + i * kRuns + n]);
      for (int c = 0; c < kVecs; ++c) {
        const simd::Vec v_j = simd::load(row + c * kWidth);
        for (int r = 0; r < kRows; ++r) sum[r][c] += p_j[r] * v_j;
      }
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (int c = 0; c < kVecs; ++c) simd::store(out + r * out_stride + c * kWidth, sum[r][c]);
}

/// value_block over the columns [0, head_dim), as wide as they allow.
///
/// \param p        [kRows, kTileKeys] weights
/// \param v        first rows of the runs
/// \param ahead    runs that will be read later, asked for meanwhile
/// \param stride   elements between two rows of a run
/// \param run_keys keys of each run
/// \param head_dim columns
/// \param out      [kRows, head_dim], packed, added to
template <int kRows, std::size_t kRuns, class T>
inline void value_columns(const float* p, const std::array<const T*, kRuns>& v,
                          const std::array<const T*, kRuns>& ahead, std::int64_t stride,
                          int run_keys, int head_dim, float* out) {
  using simd::kWidth;
  int d = 0;
  for (; d + 4 * kWidth <= head_dim; d += 4 * kWidth)
    value_block<kRows, 4>(p, v, ahead, d, stride, run_keys, out + d, head_dim);
  for (; d + kWidth <= head_dim; d += kWidth)
    value_block<kRows, 1>(p, v, ahead, d, stride, run_keys, out + d, head_dim);
  for (; d < head_dim; ++d)
    for (int r = 0; r < kRows; ++r)
      for (std::size_t j = 0; j < run_keys * kRuns; ++j)
        out[static_cast<std::int64_t>(r) * head_dim + d] +=
            p[r * kTileKeys + j] * to_float(v[j % kRuns][j / kRuns * stride + d]);
}

/// out[r, d] += sum_j p[r, j] * v[j, d] for few rows: V rows are read where they lie, once for
/// three rows, whose sums take the registers that a wider block of rows would need.
///
/// \param num_rows query rows
/// \param p        [num_rows, kTileKeys], columns [0, run_keys * kRuns) are read
/// \param v        first rows of kRuns runs, in which rows are stride elements apart; key j of p is
///                 row j / kRuns of run j % kRuns
/// \param ahead    runs that will be read later, asked for meanwhile
/// \param stride   elements between two rows of a run
/// \param run_keys keys of each run
/// \param head_dim elements of a row
/// \param out      [num_rows, head_dim], packed
template <std::size_t kRuns, class T>
inline void add_few_values(std::int64_t num_rows, const float* p,
                           const std::array<const T*, kRuns>& v,
                           const std::array<const T*, kRuns>& ahead, std::int64_t stride,
                           int run_keys, int head_dim, float* out) {
  for (std::int64_t r = 0; r < num_rows; r += 3) {
    const float* p_r = p + r * kTileKeys;
    float* out_r = out + r * head_dim;
    if (num_rows - r >= 3) {
      value_columns<3>(p_r, v, ahead, stride, run_keys, head_dim, out_r);
    } else if (num_rows - r == 2) {
      value_columns<2>(p_r, v, ahead, stride, run_keys, head_dim, out_r);
    } else {
      value_columns<1>(p_r, v, ahead, stride, run_keys, head_dim, out_r);
    }
  }
}

/// out[r, d] += sum_j p[r, j] * v[j, d] for many rows, with the blocks of simd::multiply_rows.
///
/// \param num_rows query rows
/// \param p        [num_rows, kTileKeys], columns [0, num_keys) are read
/// \param v        [num_keys, head_dim], packed
/// \param num_keys keys of the tile, at most kTileKeys
/// \param head_dim elements of a row
/// \param out      [num_rows, head_dim], packed
inline void add_values(std::int64_t num_rows, const float* p, const float* v, int num_keys,
                       int head_dim, float* out) {
  using simd::kWidth;
  int d = 0;
  for (; d + simd::kTileCols <= head_dim; d += simd::kTileCols)
    simd::multiply_rows<simd::kTileVecs>(num_rows, p, kTileKeys, v + d, head_dim, num_keys, out + d,
                                         head_dim, true);
  for (; d + kWidth <= head_dim; d += kWidth)
    simd::multiply_rows<1>(num_rows, p, kTileKeys, v + d, head_dim, num_keys, out + d, head_dim,
                           true);
  for (; d < head_dim; ++d)
    for (std::int64_t r = 0; r < num_rows; ++r)
      for (int j = 0; j < num_keys; ++j)
        out[r * head_dim + d] +=
            p[r * kTileKeys + j] * v[static_cast<std::int64_t>(j) * head_dim + d];
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

}  // namespace kv::fast
