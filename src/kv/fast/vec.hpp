// Vectors of floats as wide as the processor's registers.
//
// Compilers turn plain loops over these types into good code on every processor (GCC's vector
// extension, which clang shares). Only widening needs intrinsics: fp16 has an instruction that no
// plain code leads to, and GCC takes integer lanes apart one by one (Q8_0 products ran at an eighth
// of their speed). Each has its portable twin beside it, and a test holds them equal.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "kv/dtype.hpp"

#if defined(__AVX2__) || defined(__F16C__)
#include <immintrin.h>
#endif

/// Register-wide arithmetic, shared by the products and by attention.
namespace kv::simd {

#if defined(__AVX512F__)
inline constexpr int kWidth = 16;  ///< floats of one register
#elif defined(__AVX2__)
inline constexpr int kWidth = 8;  ///< floats of one register
#else
inline constexpr int kWidth = 4;  ///< floats of one register
#endif

using Vec [[gnu::vector_size(kWidth * 4)]] = float;              ///< kWidth floats
using IntVec [[gnu::vector_size(kWidth * 4)]] = std::int32_t;    ///< as many 32-bit integers
using BitVec [[gnu::vector_size(kWidth * 4)]] = std::uint32_t;   ///< their bits
using HalfVec [[gnu::vector_size(kWidth * 2)]] = std::uint16_t;  ///< kWidth 16-bit patterns
using ByteVec [[gnu::vector_size(kWidth)]] = std::int8_t;        ///< kWidth signed bytes
using UByteVec [[gnu::vector_size(kWidth)]] = std::uint8_t;      ///< kWidth unsigned bytes
using Vec4 [[gnu::vector_size(16)]] = float;                     ///< four floats

/// Reads a vector from any address.
template <class V>
inline V load_as(const void* from) {
  V v;
  std::memcpy(&v, from, sizeof v);
  return v;
}

/// The float `x` in every lane.
inline Vec broadcast(float x) { return x - Vec{}; }

/// Widens kWidth unsigned integers to 32 bits with plain conversions.
template <class Narrow>
inline BitVec widen_bits_portable(Narrow narrow) {
  return __builtin_convertvector(narrow, BitVec);
}

/// Widens kWidth signed bytes to 32 bits with plain conversions.
inline IntVec widen_bytes_portable(ByteVec bytes) { return __builtin_convertvector(bytes, IntVec); }

/// Widens kWidth 16-bit patterns with zeros.
inline BitVec widen_bits(HalfVec halves) {
#if defined(__AVX512F__)
  return std::bit_cast<BitVec>(_mm512_maskz_cvtepu16_epi32(0xffff, std::bit_cast<__m256i>(halves)));
#elif defined(__AVX2__)
  return std::bit_cast<BitVec>(_mm256_cvtepu16_epi32(std::bit_cast<__m128i>(halves)));
#else
  return widen_bits_portable(halves);
#endif
}

/// Widens kWidth unsigned bytes with zeros.
inline BitVec widen_bits(UByteVec bytes) {
#if defined(__AVX512F__)
  return std::bit_cast<BitVec>(_mm512_maskz_cvtepu8_epi32(0xffff, std::bit_cast<__m128i>(bytes)));
#elif defined(__AVX2__)
  return std::bit_cast<BitVec>(
      _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(std::bit_cast<std::int64_t>(bytes))));
#else
  return widen_bits_portable(bytes);
#endif
}

/// Widens kWidth signed bytes with their signs.
inline IntVec widen_bytes(ByteVec bytes) {
#if defined(__AVX512F__)
  return std::bit_cast<IntVec>(_mm512_maskz_cvtepi8_epi32(0xffff, std::bit_cast<__m128i>(bytes)));
#elif defined(__AVX2__)
  return std::bit_cast<IntVec>(
      _mm256_cvtepi8_epi32(_mm_cvtsi64_si128(std::bit_cast<std::int64_t>(bytes))));
#else
  return widen_bytes_portable(bytes);
#endif
}

/// Widens kWidth fp16 patterns with plain integer and float operations (kv::to_float by lanes).
inline Vec widen_f16_portable(HalfVec halves) {
  const BitVec bits = widen_bits(halves);
  const BitVec sign = (bits & 0x8000u) << 16;
  const BitVec magnitude = bits & 0x7fffu;
  const Vec scaled = std::bit_cast<Vec>(magnitude << 13) * 0x1p112f;
  const BitVec special = 0x7f800000u | ((magnitude & 0x3ffu) << 13);  // infinity or NaN
  const BitVec is_special = std::bit_cast<BitVec>(magnitude >= 0x7c00u);
  return std::bit_cast<Vec>(sign | (is_special & special) |
                            (~is_special & std::bit_cast<BitVec>(scaled)));
}

/// Widens kWidth fp16 patterns, in one instruction where there is one.
inline Vec widen_f16(HalfVec halves) {
#if defined(__AVX512F__)
  // All lanes by mask: GCC 12 warns of an uninitialised value inside the plain intrinsic.
  return std::bit_cast<Vec>(_mm512_maskz_cvtph_ps(0xffff, std::bit_cast<__m256i>(halves)));
#elif defined(__AVX2__) && defined(__F16C__)
  return std::bit_cast<Vec>(_mm256_cvtph_ps(std::bit_cast<__m128i>(halves)));
#else
  return widen_f16_portable(halves);
#endif
}

/// Widens one fp16 number: the scale of a quantised block.
inline float widen(f16 x) {
#ifdef __F16C__
  return _cvtsh_ss(x.bits);
#else
  return to_float(x);
#endif
}

/// Loads kWidth numbers of a storage format as floats.
inline Vec load(const float* from) { return load_as<Vec>(from); }
/// \copydoc load(const float*)
inline Vec load(const f16* from) { return widen_f16(load_as<HalfVec>(from)); }
/// \copydoc load(const float*)
inline Vec load(const bf16* from) {
  return std::bit_cast<Vec>(widen_bits(load_as<HalfVec>(from)) << 16);
}
/// \copydoc load(const float*)
inline Vec load(const std::int8_t* from) {
  return __builtin_convertvector(widen_bytes(load_as<ByteVec>(from)), Vec);
}

/// Writes vector v to any address.
inline void store(float* to, Vec v) { std::memcpy(to, &v, sizeof v); }

/// The lower and upper halves of each register added up until four lanes are left.
inline Vec4 fold_to_four(Vec v) {
#if defined(__AVX512F__)
  using Vec8 [[gnu::vector_size(32)]] = float;
  const Vec8 half = __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7) +
                    __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
  return __builtin_shufflevector(half, half, 0, 1, 2, 3) +
         __builtin_shufflevector(half, half, 4, 5, 6, 7);
#elif defined(__AVX2__)
  return __builtin_shufflevector(v, v, 0, 1, 2, 3) + __builtin_shufflevector(v, v, 4, 5, 6, 7);
#else
  return v;
#endif
}

/// Sums of neighbours within each 128-bit part: those of `a` in its lower half, of `b` in its
/// upper.
inline Vec add_neighbours(Vec a, Vec b) {
#if defined(__AVX512F__)
  return __builtin_shufflevector(a, b, 0, 2, 16, 18, 4, 6, 20, 22, 8, 10, 24, 26, 12, 14, 28, 30) +
         __builtin_shufflevector(a, b, 1, 3, 17, 19, 5, 7, 21, 23, 9, 11, 25, 27, 13, 15, 29, 31);
#elif defined(__AVX2__)
  return __builtin_shufflevector(a, b, 0, 2, 8, 10, 4, 6, 12, 14) +
         __builtin_shufflevector(a, b, 1, 3, 9, 11, 5, 7, 13, 15);
#else
  return __builtin_shufflevector(a, b, 0, 2, 4, 6) + __builtin_shufflevector(a, b, 1, 3, 5, 7);
#endif
}

/// The sums of four vectors a, b, c and d, one per lane: cheaper than four sums, and the same to
/// the last bit.
inline Vec4 sums(Vec a, Vec b, Vec c, Vec d) {
  return fold_to_four(add_neighbours(add_neighbours(a, b), add_neighbours(c, d)));
}

/// The sum of all lanes.
inline float sum(Vec v) { return sums(v, v, v, v)[0]; }

/// By lanes: a where a > b, else b. A NaN in `a` gives b, a NaN in `b` stays.
inline Vec max(Vec a, Vec b) { return a > b ? a : b; }

/// The largest lane.
inline float max_lane(Vec v) {
  float largest = v[0];
  for (int i = 1; i < kWidth; ++i) largest = v[i] > largest ? v[i] : largest;
  return largest;
}

}  // namespace kv::simd
