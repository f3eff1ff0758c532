// The two 16-bit float formats in kernels: kv::f16 and kv::bf16 of kv/dtype.hpp are the storage,
// float is what kernels compute with.
#pragma once

#include <type_traits>

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
/// Exact.
template <>
__device__ inline float narrow<float>(float x) {
  return x;
}
/// To nearest, ties to even.
template <>
__device__ inline bf16 narrow<bf16>(float x) {
  return {__bfloat16_as_ushort(__float2bfloat16_rn(x))};
}
/// To nearest, ties to even; infinity where f16 does not reach.
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
/// Exact.
template <>
inline float narrow<float>(float x) {
  return x;
}
/// \copydoc kv::to_bf16
template <>
inline bf16 narrow<bf16>(float x) {
  return to_bf16(x);
}
/// \copydoc kv::to_f16
template <>
inline f16 narrow<f16>(float x) {
  return to_f16(x);
}

#endif

/// Two 16-bit floats in one register, `low` in the lower half and `high` in the upper: an operand
/// of the tensor cores.
#ifdef __CUDACC__
template <typename T>
__device__ unsigned pack(float low, float high);
// One instruction rounds both; of two conversions and a merge the compiler does not always make it.
/// Two bf16, `low` and `high`.
template <>
__device__ inline unsigned pack<bf16>(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  unsigned bits;
  memcpy(&bits, &pair, sizeof(bits));
  return bits;
}
/// Two f16, `low` and `high`.
template <>
__device__ inline unsigned pack<f16>(float low, float high) {
  const __half2 pair = __floats2half2_rn(low, high);
  unsigned bits;
  memcpy(&bits, &pair, sizeof(bits));
  return bits;
}
#else
template <typename T>
unsigned pack(float low, float high) {
  return static_cast<unsigned>(narrow<T>(low).bits) | static_cast<unsigned>(narrow<T>(high).bits)
                                                          << 16;
}
#endif

/// The two halves of a register.
template <typename T>
__device__ inline float2 unpack(unsigned pair) {
  // bf16 is the upper half of a float: one instruction each, where two widen() take three.
  if constexpr (std::is_same_v<T, bf16>)
    return make_float2(__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u));
  return make_float2(widen(T{static_cast<std::uint16_t>(pair & 0xffffu)}),
                     widen(T{static_cast<std::uint16_t>(pair >> 16)}));
}

}  // namespace kv::KV_BACKEND
