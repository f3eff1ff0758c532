// The two products of fragments.cuh without tensor cores, in fp32: the same rows, keys and elements
// lie with the same threads, so softmax_step() serves both.
#pragma once

#include "attention/fragments.cuh"
#include "vector_access.cuh"

namespace kv::KV_BACKEND {

/// Four floats in one access, from `chunk` in shared memory `to` registers.
__device__ __forceinline__ void load(float (&to)[4], const uint4& chunk) {
  load_vector(to, reinterpret_cast<const float*>(&chunk));
}

/// s = q K^T for 16 rows and the 8 * kNumTiles keys of a tile, unscaled.
///
/// \param s the thread's four scores of every 8 keys, written
/// \param q [16, kHeadDim] swizzled
/// \param k [8 * kNumTiles, kHeadDim] swizzled
template <int kHeadDim, int kNumTiles>
__device__ __forceinline__ void multiply_keys(float (&s)[kNumTiles][4],
                                              const uint4 (&q)[4 * kHeadDim],
                                              const uint4 (&k)[2 * kNumTiles * kHeadDim]) {
  using Place = SwizzledRows<kHeadDim / 4>;
  const int row = threadIdx.x % 32 / 4;
  const int key = threadIdx.x % 4 * 2;
  for (auto& tile : s)
    for (float& x : tile) x = 0.0f;
  for (int c = 0; c < Place::kChunks; ++c) {
    float q_values[2][4];
    for (int r = 0; r < 2; ++r) load(q_values[r], q[Place::index(row, c) + 8 * r * Place::kChunks]);
    for (int i = 0; i < kNumTiles; ++i)
      for (int e = 0; e < 2; ++e) {
        float k_values[4];
        load(k_values, k[Place::index(key + e, c) + 8 * i * Place::kChunks]);
        for (int r = 0; r < 2; ++r)
          for (int x = 0; x < 4; ++x) s[i][2 * r + e] += q_values[r][x] * k_values[x];
      }
  }
}

/// out += weights V. A thread has the weights of two keys in eight, and asks the other three of its
/// row for theirs.
///
/// \param rows    the state of 16 rows; its output is added to
/// \param weights as the scores of multiply_keys() lie
/// \param v       as k
template <int kHeadDim, int kNumTiles>
__device__ __forceinline__ void multiply_values(Rows<kHeadDim>& rows,
                                                const float (&weights)[kNumTiles][4],
                                                const uint4 (&v)[2 * kNumTiles * kHeadDim]) {
  using Place = SwizzledRows<kHeadDim / 4>;
  const int lane = threadIdx.x % 32;
  const int half = lane % 4 / 2;  // the thread's two elements of eight lie in this chunk of two
  unrolled<8 * kNumTiles>([&]<int j>() {
    const int owner = lane / 4 * 4 + j % 8 / 2;
    const float w_0 = __shfl_sync(0xffffffffu, weights[j / 8][j % 2], owner);
    const float w_8 = __shfl_sync(0xffffffffu, weights[j / 8][2 + j % 2], owner);
    // Place::index(j, 2 * d + half), with constants split off: of the lane's part there are but
    // two.
    const int swizzle = Place::swizzle(j);
    const int lane_chunk = swizzle % 2 == 0 ? half : 1 - half;
    for (int d = 0; d < kHeadDim / 8; ++d) {
      const uint4& chunk = v[j * Place::kChunks + (2 * d ^ swizzle / 2 * 2) + lane_chunk];
      const float2 x = reinterpret_cast<const float2*>(&chunk)[lane % 2];
      rows.out[d][0] += w_0 * x.x;
      rows.out[d][1] += w_0 * x.y;
      rows.out[d][2] += w_8 * x.x;
      rows.out[d][3] += w_8 * x.y;
    }
  });
}

}  // namespace kv::KV_BACKEND
