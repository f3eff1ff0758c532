// Device functions of arithmetic for a host compiler.
//
// The fast variants are computed exactly here: the emulator cannot show the hardware's rounding of
// ex2.approx and its relatives. Names that glibc declares itself are macros.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#define __expf(x) (::expf(x))
#define __exp2f(x) (::exp2f(x))
#define __logf(x) (::logf(x))
#define __log2f(x) (::log2f(x))
#define __sinf(x) (::sinf(x))
#define __cosf(x) (::cosf(x))
#define __powf(x, y) (::powf(x, y))

inline float __fdividef(float a, float b) { return a / b; }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fsqrt_rn(float x) { return ::sqrtf(x); }
inline float rsqrtf(float x) { return 1.0f / ::sqrtf(x); }
inline float __fmaf_rn(float a, float b, float c) { return ::fmaf(a, b, c); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fmul_rn(float a, float b) {
  const volatile float product = a * b;  // never contracted into a fused multiply-add
  return product;
}

using std::max;
using std::min;

inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline int __popc(unsigned x) { return std::popcount(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
/// Position of the lowest set bit, counted from 1; 0 when there is none.
inline int __ffs(int x) { return x == 0 ? 0 : std::countr_zero(static_cast<unsigned>(x)) + 1; }

/// Read-only load: on a GPU through the texture path, here a plain load.
template <typename T>
__attribute__((always_inline)) inline T __ldg(const T* address) {
  return *address;
}

// Fences order memory between threads; fibers of one launch see each other's stores in order.
// The checked build still asks for a barrier: a fence alone does not make anyone wait.
inline void __threadfence() { asm volatile("" ::: "memory"); }
inline void __threadfence_block() { asm volatile("" ::: "memory"); }
