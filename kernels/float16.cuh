// The two 16-bit float formats in kernels: kv::f16 and kv::bf16 of kv/dtype.hpp are the storage,
// float is what kernels compute with.
#pragma once

#include "kv/dtype.hpp"

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

namespace kv::KV_BACKEND {

#ifdef __CUDACC__

/// Exact.
__device__ inline float widen(float x) { return x; }
/// Exact.
__device__ inline float widen(bf16 x) { return __bfloat162float(__ushort_as_bfloat16(x.bits)); }
/// Exact.
__device__ inline float widen(f16 x) { return __half2float(__ushort_as_half(x.bits)); }

/// Rounds to nearest, ties to even.
template <typename T>
__device__ T narrow(float x);
template <>
__device__ inline float narrow<float>(float x) {
  return x;
}
template <>
__device__ inline bf16 narrow<bf16>(float x) {
  return {__bfloat16_as_ushort(__float2bfloat16_rn(x))};
}
template <>
__device__ inline f16 narrow<f16>(float x) {
  return {__half_as_ushort(__float2half_rn(x))};
}

#else

/// Exact.
inline float widen(float x) { return x; }
/// Exact.
inline float widen(bf16 x) { return to_float(x); }
/// Exact.
inline float widen(f16 x) { return to_float(x); }

/// Rounds to nearest, ties to even.
template <typename T>
T narrow(float x);
template <>
inline float narrow<float>(float x) {
  return x;
}
template <>
inline bf16 narrow<bf16>(float x) {
  return to_bf16(x);
}
template <>
inline f16 narrow<f16>(float x) {
  return to_f16(x);
}

#endif

/// Two 16-bit floats in one register, `low` in the lower half: an operand of the tensor cores.
template <typename T>
__device__ inline unsigned pack(float low, float high) {
  return static_cast<unsigned>(narrow<T>(low).bits) | static_cast<unsigned>(narrow<T>(high).bits)
                                                          << 16;
}

/// The two halves of a register.
template <typename T>
__device__ inline float2 unpack(unsigned pair) {
  return make_float2(widen(T{static_cast<std::uint16_t>(pair & 0xffffu)}),
                     widen(T{static_cast<std::uint16_t>(pair >> 16)}));
}

}  // namespace kv::KV_BACKEND
