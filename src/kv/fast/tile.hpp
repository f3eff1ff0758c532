// The register-blocked product that prefill spends its time in, and what prepares its operands.
//
// Source: Goto & van de Geijn 2008 (panels that stay in a cache, a block of the result that stays
// in registers).
#pragma once

#include <cstdint>

#include "kv/fast/vec.hpp"

namespace kv::simd {

/// Vectors of one row of a register block.
inline constexpr int kTileVecs = 2;
/// Columns of a register block.
inline constexpr int kTileCols = kTileVecs * kWidth;
/// Rows of a register block: with 16 registers 6 x 2 sums, 2 loaded vectors and a broadcast fit.
inline constexpr int kTileRows = kWidth == 16 ? 12 : 6;

/// c[r, n] = (accumulate ? c[r, n] : 0) + sum_k a[r, k] * b[k, n] for a block of kRows rows and
/// kVecs * kWidth columns that stays in registers.
///
/// \param a          [kRows, num_k]
/// \param a_stride   floats between two rows of a
/// \param b          [num_k, kVecs * kWidth], widened when loaded
/// \param b_stride   elements between two rows of b
/// \param num_k      terms of each sum, in order
/// \param c          [kRows, kVecs * kWidth], written
/// \param c_stride   floats between two rows of c
/// \param accumulate whether c already holds a part of the sums
template <int kRows, int kVecs, class T>
inline void multiply_tile(const float* a, std::int64_t a_stride, const T* b, std::int64_t b_stride,
                          std::int64_t num_k, float* c, std::int64_t c_stride, bool accumulate) {
  Vec sum[kRows][kVecs];
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVecs; ++v)
      sum[r][v] = accumulate ? load(c + r * c_stride + v * kWidth) : Vec{};
  for (std::int64_t k = 0; k < num_k; ++k) {
    Vec b_row[kVecs];
    for (int v = 0; v < kVecs; ++v) b_row[v] = load(b + k * b_stride + v * kWidth);
    for (int r = 0; r < kRows; ++r) {
      const Vec a_rk = broadcast(a[r * a_stride + k]);
      for (int v = 0; v < kVecs; ++v) sum[r][v] += a_rk * b_row[v];
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVecs; ++v) store(c + r * c_stride + v * kWidth, sum[r][v]);
}

/// multiply_tile for any number of rows: full blocks first, then one smaller block.
///
/// \param num_rows   rows of a and c
/// \param a          [num_rows, num_k]
/// \param a_stride   floats between two rows of a
/// \param b          [num_k, kVecs * kWidth], widened when loaded
/// \param b_stride   elements between two rows of b
/// \param num_k      terms of each sum, in order
/// \param c          [num_rows, kVecs * kWidth], written
/// \param c_stride   floats between two rows of c
/// \param accumulate whether c already holds a part of the sums
template <int kVecs, class T>
inline void multiply_rows(std::int64_t num_rows, const float* a, std::int64_t a_stride, const T* b,
                          std::int64_t b_stride, std::int64_t num_k, float* c,
                          std::int64_t c_stride, bool accumulate) {
  std::int64_t r = 0;
  for (; r + kTileRows <= num_rows; r += kTileRows)
    multiply_tile<kTileRows, kVecs>(a + r * a_stride, a_stride, b, b_stride, num_k,
                                    c + r * c_stride, c_stride, accumulate);
  a += r * a_stride;
  c += r * c_stride;
  // The rest, at most kTileRows - 1 rows, in powers of two.
  if constexpr (kTileRows > 8) {
    if ((num_rows - r) & 8) {
      multiply_tile<8, kVecs>(a, a_stride, b, b_stride, num_k, c, c_stride, accumulate);
      a += 8 * a_stride, c += 8 * c_stride;
    }
  }
  const std::int64_t rest = num_rows - r;
  if (rest & 4) {
    multiply_tile<4, kVecs>(a, a_stride, b, b_stride, num_k, c, c_stride, accumulate);
    a += 4 * a_stride, c += 4 * c_stride;
  }
  if (rest % 4 == 3) {
    multiply_tile<3, kVecs>(a, a_stride, b, b_stride, num_k, c, c_stride, accumulate);
  } else if (rest % 4 == 2) {
    multiply_tile<2, kVecs>(a, a_stride, b, b_stride, num_k, c, c_stride, accumulate);
  } else if (rest % 4 == 1) {
    multiply_tile<1, kVecs>(a, a_stride, b, b_stride, num_k, c, c_stride, accumulate);
  }
}

/// Transposes a block of 4 x 4: to[j, i] = from[i, j], rows from_stride and to_stride floats apart.
inline void transpose_4x4(const float* from, std::int64_t from_stride, float* to,
                          std::int64_t to_stride) {
  const Vec4 a = load_as<Vec4>(from), b = load_as<Vec4>(from + from_stride);
  const Vec4 c = load_as<Vec4>(from + 2 * from_stride), d = load_as<Vec4>(from + 3 * from_stride);
  const Vec4 ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5);   // a0 b0 a1 b1
  const Vec4 ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);  // a2 b2 a3 b3
  const Vec4 cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  const Vec4 cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  const Vec4 rows[4] = {__builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5),
                        __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7),
                        __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5),
                        __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7)};
  for (int j = 0; j < 4; ++j) std::memcpy(to + j * to_stride, &rows[j], sizeof rows[j]);
}

/// Transposes any matrix: to[j, i] = from[i, j]. Nothing outside the two is read or written.
///
/// \param from        [num_rows, num_cols]
/// \param from_stride floats between two rows of from
/// \param num_rows    rows of from, any number
/// \param num_cols    columns of from, any number
/// \param to          [num_cols, num_rows], written
/// \param to_stride   floats between two rows of to
inline void transpose(const float* from, std::int64_t from_stride, std::int64_t num_rows,
                      std::int64_t num_cols, float* to, std::int64_t to_stride) {
  const std::int64_t whole_rows = num_rows / 4 * 4, whole_cols = num_cols / 4 * 4;
  for (std::int64_t j = 0; j < whole_cols; j += 4)
    for (std::int64_t i = 0; i < whole_rows; i += 4)
      transpose_4x4(from + i * from_stride + j, from_stride, to + j * to_stride + i, to_stride);
  for (std::int64_t i = 0; i < num_rows; ++i)
    for (std::int64_t j = i < whole_rows ? whole_cols : 0; j < num_cols; ++j)
      to[j * to_stride + i] = from[i * from_stride + j];
}

}  // namespace kv::simd
