// Dot products of one weight row with a few rows of activations: what decode does all day.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kv/model/block_readers.hpp"

namespace kv {

/// The activations of a product with few rows.
struct DotInput {
  const float* x = nullptr;   ///< [num_x, num_cols]
  std::int64_t x_stride = 0;  ///< floats from one row to the next
  std::int64_t num_cols = 0;
  const float* block_sums = nullptr;  ///< [num_x, num_cols / 32] sums of 32 neighbours of x
};

/// out[r * out_stride] = sum_i w[i] * x[first_x + r, i] for r < kRows, w plain floats of type T.
template <class T, int kRows>
void dot_floats(const std::byte* row, const DotInput& in, std::int64_t first_x, float* out,
                std::int64_t out_stride) {
  using simd::kWidth;
  // A sum of its own for every few vectors: additions wait four cycles for their predecessor.
  constexpr int kChains = kRows == 1 ? 4 : 2;
  const T* w = reinterpret_cast<const T*>(row);
  const float* x = in.x + first_x * in.x_stride;
  simd::Vec sum[kRows][kChains] = {};
  std::int64_t i = 0;
  for (; i + kChains * kWidth <= in.num_cols; i += kChains * kWidth) {
    for (int c = 0; c < kChains; ++c) {
      const simd::Vec w_i = simd::load(w + i + c * kWidth);
      for (int r = 0; r < kRows; ++r)
        sum[r][c] += w_i * simd::load(x + r * in.x_stride + i + c * kWidth);
    }
  }
  for (; i + kWidth <= in.num_cols; i += kWidth) {
    const simd::Vec w_i = simd::load(w + i);
    for (int r = 0; r < kRows; ++r) sum[r][0] += w_i * simd::load(x + r * in.x_stride + i);
  }
  for (int r = 0; r < kRows; ++r) {
    for (int c = 1; c < kChains; ++c) sum[r][0] += sum[r][c];
    float total = simd::sum(sum[r][0]);
    for (std::int64_t j = i; j < in.num_cols; ++j) total += to_float(w[j]) * x[r * in.x_stride + j];
    out[r * out_stride] = total;
  }
}

/// The same for a quantised row: the integers are multiplied and summed over a block of 32, and
/// the block's factor is applied to that sum. An offset multiplies the block's sum of x.
template <class Reader, int kRows>
void dot_blocks(const std::byte* row, const DotInput& in, std::int64_t first_x, float* out,
                std::int64_t out_stride) {
  using readers::kBlock;
  const std::int64_t num_blocks = in.num_cols / kBlock;
  const float* x = in.x + first_x * in.x_stride;
  const float* block_sums = Reader::kHasOffset ? in.block_sums + first_x * num_blocks : nullptr;
  simd::Vec sum[kRows] = {};
  float offset_sum[kRows] = {};
  for (std::int64_t b = 0; b < num_blocks; ++b) {
    const Reader block(row, b);
    simd::Vec part[kRows] = {};
    for (int i = 0; i < kBlock; i += simd::kWidth) {
      const simd::Vec w_i = block.values(i);
      for (int r = 0; r < kRows; ++r)
        part[r] += w_i * simd::load(x + r * in.x_stride + b * kBlock + i);
    }
    for (int r = 0; r < kRows; ++r) {
      sum[r] += part[r] * block.scale;
      if constexpr (Reader::kHasOffset)
        offset_sum[r] += block.offset * block_sums[r * num_blocks + b];
    }
  }
  for (int r = 0; r < kRows; ++r) out[r * out_stride] = simd::sum(sum[r]) + offset_sum[r];
}

}  // namespace kv
