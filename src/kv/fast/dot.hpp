// Dot products of weight rows with a few rows of activations: what decode does all day.
//
// Decode waits for memory, so the weights are read the way that memory is fastest: four rows at a
// time that lie far apart. A processor fetches ahead along each row it sees being read, up to the
// end of the page; four such streams keep more reads under way than one (measured, two threads:
// 130 % of the bandwidth of reading from one end to the other). Four rows also share every load
// of x.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kv/fast/block_readers.hpp"

namespace kv::fast {

/// Weight rows that are multiplied at a time.
inline constexpr int kDotWeightRows = 4;

/// The activations of a product with few rows.
struct DotInput {
  const float* x = nullptr;           ///< [num_x, num_cols]
  std::int64_t x_stride = 0;          ///< floats from one row to the next
  std::int64_t num_cols = 0;          ///< elements of a row
  const float* block_sums = nullptr;  ///< [num_x, num_cols / 32] sums of 32 neighbours of x
};

/// Weight rows of one dot product, and where their results go.
struct DotRows {
  const std::byte* row = nullptr;  ///< first of them
  std::int64_t row_stride = 0;     ///< bytes from one to the next
  float* out = nullptr;            ///< result of the first weight row and the first row of x
  std::int64_t out_step = 0;       ///< floats from one weight row's result to the next
  std::int64_t out_stride = 0;     ///< floats from one row of x to the next
};

/// Asks for memory that the same stream of weights reaches soon. The processor's own fetching ahead
/// stops at every page and starts anew; behind the end of the matrix this asks in vain.
inline void prefetch_weights(const std::byte* at) {
  constexpr int kAheadBytes = 512;  // measured: 512 to 1,024 are close to each other
  __builtin_prefetch(at + kAheadBytes);
}

/// Writes the sum of each vector's lanes: the results of kW weight rows with row r of x. Four sums
/// at a time cost little more than one.
template <int kW>
inline void store_sums(const simd::Vec (&lanes)[kW], const DotRows& rows, int r) {
  float* out = rows.out + r * rows.out_stride;
  if constexpr (kW == 4) {
    const simd::Vec4 four = simd::sums(lanes[0], lanes[1], lanes[2], lanes[3]);
    for (int w = 0; w < 4; ++w) out[w * rows.out_step] = four[w];
  } else {
    for (int w = 0; w < kW; ++w) out[w * rows.out_step] = simd::sum(lanes[w]);
  }
}

/// out[w, r] = sum_i weight[w, i] * x[first_x + r, i] for w < kW, r < kX; the weights are plain
/// floats of type T. The order of each sum does not depend on kW.
template <class T, int kW, int kX>
void dot_floats(const DotRows& rows, const DotInput& in, std::int64_t first_x) {
  using simd::kWidth;
  // Sums per result: enough in all to hide the latency, and no more than the registers hold.
  constexpr int kChains = kX == 1 ? 2 : 1;
  const std::int64_t stride = rows.row_stride;
  const float* x = in.x + first_x * in.x_stride;
  const auto weight = [&](int w, std::int64_t i) {
    return reinterpret_cast<const T*>(rows.row + w * stride) + i;
  };
  simd::Vec sum[kW][kX][kChains] = {};
  std::int64_t i = 0;
  for (; i + kChains * kWidth <= in.num_cols; i += kChains * kWidth) {
    // fp32 passes so quickly that asking would only take time.
    if constexpr (sizeof(T) < 4)
      for (int w = 0; w < kW; ++w)
        prefetch_weights(reinterpret_cast<const std::byte*>(weight(w, i)));
    for (int c = 0; c < kChains; ++c) {
      const std::int64_t at = i + c * kWidth;
      simd::Vec x_i[kX];
      for (int r = 0; r < kX; ++r) x_i[r] = simd::load(x + r * in.x_stride + at);
      for (int w = 0; w < kW; ++w) {
        const simd::Vec w_i = simd::load(weight(w, at));
        for (int r = 0; r < kX; ++r) sum[w][r][c] += w_i * x_i[r];
      }
    }
  }
  for (int r = 0; r < kX; ++r) {
    simd::Vec lanes[kW];
    for (int w = 0; w < kW; ++w) {
      lanes[w] = sum[w][r][0];
      for (int c = 1; c < kChains; ++c) lanes[w] += sum[w][r][c];
    }
    store_sums(lanes, rows, r);
    for (std::int64_t j = i; j < in.num_cols; ++j)  // what fills no vector
      for (int w = 0; w < kW; ++w)
        rows.out[w * rows.out_step + r * rows.out_stride] +=
            to_float(*weight(w, j)) * x[r * in.x_stride + j];
  }
}

/// The same for quantised rows: the integers are multiplied and summed over a block of 32, and
/// the block's factor is applied to that sum. An offset multiplies the block's sum of x.
/// \param rows    of weights
/// \param in      rows of x, and where the sums go
/// \param first_x the first row of x that is taken
template <class Reader, int kW, int kX>
void dot_blocks(const DotRows& rows, const DotInput& in, std::int64_t first_x) {
  using readers::kBlock;
  const std::int64_t num_blocks = in.num_cols / kBlock, stride = rows.row_stride;
  const float* x = in.x + first_x * in.x_stride;
  const float* block_sums = Reader::kHasOffset ? in.block_sums + first_x * num_blocks : nullptr;
  simd::Vec sum[kW][kX] = {};
  float offset_sum[kW][kX] = {};
  for (std::int64_t b = 0; b < num_blocks; ++b) {
    for (int w = 0; w < kW; ++w) {
      const Reader block(rows.row + w * stride, b);
      prefetch_weights(block.data());
      simd::Vec part[kX] = {};
      for (int i = 0; i < kBlock; i += simd::kWidth) {
        const simd::Vec w_i = block.values(i);
        for (int r = 0; r < kX; ++r)
          part[r] += w_i * simd::load(x + r * in.x_stride + b * kBlock + i);
      }
      for (int r = 0; r < kX; ++r) {
        sum[w][r] += part[r] * block.scale;
        if constexpr (Reader::kHasOffset)
          offset_sum[w][r] += block.offset * block_sums[r * num_blocks + b];
      }
    }
  }
  for (int r = 0; r < kX; ++r) {
    simd::Vec lanes[kW];
    for (int w = 0; w < kW; ++w) lanes[w] = sum[w][r];
    store_sums(lanes, rows, r);
    if constexpr (Reader::kHasOffset)
      for (int w = 0; w < kW; ++w)
        rows.out[w * rows.out_step + r * rows.out_stride] += offset_sum[w][r];
  }
}

}  // namespace kv::fast
