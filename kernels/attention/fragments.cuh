// Attention of 16 rows by one warp on tensor cores: scores, softmax, values, for the kernels that
// multiply by mma.sync.
//
// Source: PTX ISA, "mma" (fragments of m16n8k16), "ldmatrix".
//
// What one product leaves in registers is what the next one takes. Of the 16 rows a thread holds
// two, lane / 4 and lane / 4 + 8; of 8 columns two, 2 (lane % 4) and the next.
#pragma once

#include <type_traits>

#include "attention/swizzle.cuh"
#include "kernel.cuh"

namespace kv::KV_BACKEND {

inline constexpr int kChunk = 8;  ///< elements of 16 bit in 16 bytes, the unit of all copies
/// log2(e), which turns exp into exp2.
inline constexpr float kLog2E = 1.4426950408889634f;
/// And back.
inline constexpr float kLn2 = 0.6931471805599453f;

/// body<0>(), body<1>(), ... where a loop must be unrolled, whatever the compiler thinks
/// of it: an index into registers has to be a constant.
template <int kCount, typename Body>
__device__ __forceinline__ void unrolled(const Body& body) {
  if constexpr (kCount > 0) {
    unrolled<kCount - 1>(body);
    body.template operator()<kCount - 1>();
  }
}

/// The state of a thread's two rows.
template <int kHeadDim>
struct Rows {
  float out[kHeadDim / 8][4];  ///< numerator: d = 8 i + 2 (lane % 4) + {0, 1}, row 0 | row 1
  float m[2] = {-INFINITY, -INFINITY};  ///< largest score so far, times log2(e)
  float l[2] = {};                      ///< this thread's part of the denominator
};

/// d += a b in the format T, whole warp: mma_m16n8k16_bf16() or mma_m16n8k16_f16().
template <typename T>
__device__ __forceinline__ void mma(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  if constexpr (std::is_same_v<T, bf16>) {
    mma_m16n8k16_bf16(d, a, b);
  } else {
    mma_m16n8k16_f16(d, a, b);
  }
}

/// s = q K^T for 16 rows and the 8 * kNumTiles keys of a tile, unscaled.
///
/// \param s    the thread's four scores of every 8 keys, written
/// \param q    q.get(d, a) gives operand a for the elements 16 d to 16 d + 15
/// \param k    [8 * kNumTiles, kHeadDim] swizzled
/// \param lane index of what the lane names to ldmatrix: rows 0-7 | 0-7 | 8-15 | 8-15, chunks
///             0 | 1 | 0 | 1
//! [scores]
template <typename T, int kHeadDim, int kNumTiles, typename Queries>
__device__ __forceinline__ void multiply_keys(float (&s)[kNumTiles][4], const Queries& q,
                                              const uint4 (&k)[kNumTiles * kHeadDim], int lane) {
  using Place = SwizzledRows<kHeadDim / kChunk>;
  for (auto& tile : s)
    for (float& x : tile) x = 0.0f;
  for (int d = 0; d < kHeadDim / 16; ++d) {
    unsigned a[4];
    q.get(d, a);
    for (int j = 0; j < kNumTiles / 2; ++j) {
      unsigned b[4];
      ldmatrix_x4(b, &k[Place::index_from(lane, 2 * d) + 16 * j * Place::kChunks]);
      const unsigned keys_0[2] = {b[0], b[1]}, keys_8[2] = {b[2], b[3]};
      mma<T>(s[2 * j], a, keys_0);
      mma<T>(s[2 * j + 1], a, keys_8);
    }
  }
}
//! [scores]

/// out += weights V. The accumulator of the scores is laid out as mma takes its operand a: rounded
/// in place, it goes straight back.
///
/// \param rows    the state of 16 rows; its output is added to
/// \param weights as the scores of multiply_keys() lie
/// \param v       as k
/// \param lane    transposed: rows 0-7 | 8-15 | 0-7 | 8-15, chunks 0 | 0 | 1 | 1
//! [values]
template <typename T, int kHeadDim, int kNumTiles>
__device__ __forceinline__ void multiply_values(Rows<kHeadDim>& rows,
                                                const float (&weights)[kNumTiles][4],
                                                const uint4 (&v)[kNumTiles * kHeadDim], int lane) {
  using Place = SwizzledRows<kHeadDim / kChunk>;
  for (int j = 0; j < kNumTiles / 2; ++j) {
    const float(&w0)[4] = weights[2 * j];
    const float(&w1)[4] = weights[2 * j + 1];
    const unsigned a[4] = {pack<T>(w0[0], w0[1]), pack<T>(w0[2], w0[3]), pack<T>(w1[0], w1[1]),
                           pack<T>(w1[2], w1[3])};
    for (int d = 0; d < kHeadDim / 16; ++d) {
      unsigned b[4];
      ldmatrix_x4_trans(b, &v[Place::index_from(lane, 2 * d) + 16 * j * Place::kChunks]);
      const unsigned chunk_0[2] = {b[0], b[1]}, chunk_1[2] = {b[2], b[3]};
      mma<T>(rows.out[2 * d], a, chunk_0);
      mma<T>(rows.out[2 * d + 1], a, chunk_1);
    }
  }
}
//! [values]

/// The four lanes that share a row.
__device__ inline float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}
/// The same for the sum.
__device__ inline float quad_sum(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

/// Scores become weights relative to the new maximum; what was summed so far is rescaled.
/// Weight = 2^(s * scale_log2 - m): one multiply-add and one instruction for the power.
//! [softmax]
template <int kHeadDim, int kNumTiles>
__device__ __forceinline__ void softmax_step(float (&s)[kNumTiles][4], Rows<kHeadDim>& rows,
                                             float scale_log2) {
  for (int r = 0; r < 2; ++r) {
    float largest = fmaxf(s[0][2 * r], s[0][2 * r + 1]);
    for (int i = 1; i < kNumTiles; ++i)
      largest = fmaxf(largest, fmaxf(s[i][2 * r], s[i][2 * r + 1]));
    const float m = fmaxf(rows.m[r], quad_max(largest) * scale_log2);
    // No key so far: (-inf) - (-inf) would be NaN. The maximum itself stays -inf.
    const float base = m == -INFINITY ? 0.0f : m;
    const float rescale = exp2_approx(rows.m[r] - base);
    rows.m[r] = m;

    // Only this thread's keys: the four threads of a row add up at the very end.
    rows.l[r] *= rescale;
    for (int i = 0; i < kNumTiles; ++i)
      for (int e = 2 * r; e < 2 * r + 2; ++e) {
        s[i][e] = exp2_approx(fmaf(s[i][e], scale_log2, -base));
        rows.l[r] += s[i][e];
      }
    for (int i = 0; i < kHeadDim / 8; ++i)
      for (int e = 2 * r; e < 2 * r + 2; ++e) rows.out[i][e] *= rescale;
  }
}
//! [softmax]

}  // namespace kv::KV_BACKEND
