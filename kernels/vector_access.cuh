// Accesses of 8 or 16 bytes that land in plain arrays of floats.
#pragma once

#include "kernel.cuh"

namespace kv::KV_BACKEND {

/// Loads 2 or 4 floats in one access.
/// \param to   registers, written
/// \param from aligned to all of them
template <int kCount>
__device__ inline void load_vector(float (&to)[kCount], const float* from) {
  static_assert(kCount == 2 || kCount == 4);
  if constexpr (kCount == 4) {
    const float4 x = *reinterpret_cast<const float4*>(from);
    to[0] = x.x;
    to[1] = x.y;
    to[2] = x.z;
    to[3] = x.w;
  } else {
    const float2 x = *reinterpret_cast<const float2*>(from);
    to[0] = x.x;
    to[1] = x.y;
  }
}

/// Stores 2 or 4 floats in one access.
/// \param to aligned to all of them
/// \param x  registers
template <int kCount>
__device__ inline void store_vector(float* to, const float (&x)[kCount]) {
  static_assert(kCount == 2 || kCount == 4);
  if constexpr (kCount == 4) {
    *reinterpret_cast<float4*>(to) = make_float4(x[0], x[1], x[2], x[3]);
  } else {
    *reinterpret_cast<float2*>(to) = make_float2(x[0], x[1]);
  }
}

/// 16 bytes widened `to` the floats that they hold: 4, or 8 of 16 bits.
template <typename T, int kCount>
__device__ inline void widen_16_bytes(float (&to)[kCount], const uint4& bits) {
  static_assert(kCount * sizeof(T) == 16);
  const unsigned words[4] = {bits.x, bits.y, bits.z, bits.w};
  for (int i = 0; i < 4; ++i) {
    if constexpr (kCount == 4) {
      to[i] = __uint_as_float(words[i]);
    } else {
      const float2 pair = unpack<T>(words[i]);
      to[2 * i] = pair.x;
      to[2 * i + 1] = pair.y;
    }
  }
}

}  // namespace kv::KV_BACKEND
