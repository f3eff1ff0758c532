// Sums and maxima over the lanes of a warp.
#pragma once

#include "kernel.cuh"

namespace kv::KV_BACKEND {

/// The sum of x over each group of kLanes neighbouring lanes (a power of two), in every lane. All
/// 32 lanes of the warp must call it.
template <int kLanes = 32>
__device__ inline float warp_sum(float x) {
  for (int offset = kLanes / 2; offset > 0; offset /= 2)
    x += __shfl_xor_sync(0xffffffffu, x, offset);
  return x;
}

/// The largest x of each group of kLanes neighbouring lanes, in every lane.
template <int kLanes = 32>
__device__ inline float warp_max(float x) {
  for (int offset = kLanes / 2; offset > 0; offset /= 2)
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, offset));
  return x;
}

}  // namespace kv::KV_BACKEND
