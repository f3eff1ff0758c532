// CUDA's built-in vector types for a host compiler.
//
// A float4 is loaded and stored as one access of 16 bytes, as on a GPU: the copy goes through a
// compiler vector, so that neither the optimiser nor the memory checks see four small accesses.
#pragma once

#include <cstdint>

#include "index.hpp"

// gcc: "multi-line" anonymous structs are an extension that every supported compiler has.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"

namespace kv::emulator {

#define KV_EMULATOR_INLINE inline __attribute__((always_inline))

/// The vector itself. In the checked build the optimiser may not look inside: it would make four
/// small loads of one whose parts are used one by one.
template <typename Whole>
KV_EMULATOR_INLINE Whole in_one_piece(Whole whole) {
  if constexpr (sizeof(Whole) == 8) {  // clang puts vectors of 8 bytes into no vector register
    auto bits = __builtin_bit_cast(std::uint64_t, whole);
#ifdef KV_EMULATOR_CHECKED
    asm("" : "+r"(bits));
#endif
    return __builtin_bit_cast(Whole, bits);
  }
#if defined(KV_EMULATOR_CHECKED) && defined(__x86_64__)
  asm("" : "+x"(whole));
#elif defined(KV_EMULATOR_CHECKED) && defined(__aarch64__)
  asm("" : "+w"(whole));
#endif
  return whole;
}

/// Two elements that move as one access.
template <typename T>
struct alignas(2 * sizeof(T)) Vector2 {
  /// The machine's view of the same bytes; it may alias any other type.
  typedef T Whole __attribute__((vector_size(2 * sizeof(T)), may_alias));
  union {
    struct {
      T x, y;
    };
    Whole whole;
  };
  Vector2() = default;
  KV_EMULATOR_INLINE constexpr Vector2(T x_in, T y_in) : x(x_in), y(y_in) {}
  KV_EMULATOR_INLINE Vector2(const Vector2& other) : whole(in_one_piece(other.whole)) {}
  KV_EMULATOR_INLINE Vector2& operator=(const Vector2& other) {
    whole = in_one_piece(other.whole);
    return *this;
  }
};

/// Four elements that move as one access.
template <typename T>
struct alignas(4 * sizeof(T)) Vector4 {
  /// The machine's view of the same bytes; it may alias any other type.
  typedef T Whole __attribute__((vector_size(4 * sizeof(T)), may_alias));
  union {
    struct {
      T x, y, z, w;
    };
    Whole whole;
  };
  Vector4() = default;
  KV_EMULATOR_INLINE constexpr Vector4(T x_in, T y_in, T z_in, T w_in)
      : x(x_in), y(y_in), z(z_in), w(w_in) {}
  KV_EMULATOR_INLINE Vector4(const Vector4& other) : whole(in_one_piece(other.whole)) {}
  KV_EMULATOR_INLINE Vector4& operator=(const Vector4& other) {
    whole = in_one_piece(other.whole);
    return *this;
  }
};

}  // namespace kv::emulator

#pragma GCC diagnostic pop

using float2 = kv::emulator::Vector2<float>;
using float4 = kv::emulator::Vector4<float>;
using int2 = kv::emulator::Vector2<int>;
using int4 = kv::emulator::Vector4<int>;
using uint2 = kv::emulator::Vector2<unsigned>;
using uint4 = kv::emulator::Vector4<unsigned>;
using double2 = kv::emulator::Vector2<double>;

KV_EMULATOR_INLINE float2 make_float2(float x, float y) { return {x, y}; }
KV_EMULATOR_INLINE float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
KV_EMULATOR_INLINE int2 make_int2(int x, int y) { return {x, y}; }
KV_EMULATOR_INLINE int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
KV_EMULATOR_INLINE uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
KV_EMULATOR_INLINE uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
  return {x, y, z, w};
}

using uint3 = kv::emulator::Index3;
using dim3 = kv::emulator::Dim3;
