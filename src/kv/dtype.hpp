// The number formats that weights and caches are stored in.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

namespace kv {

/// Storage formats; the values are those of the GGUF file format.
enum class DType : std::uint32_t {
  f32 = 0,    ///< 4 bytes: IEEE 754 binary32
  f16 = 1,    ///< 2 bytes: IEEE 754 binary16
  q4_0 = 2,   ///< blocks of 32 in 18 bytes: 4-bit numbers, an fp16 scale
  q4_1 = 3,   ///< blocks of 32 in 20 bytes: 4-bit numbers, an fp16 scale and minimum
  q5_0 = 6,   ///< blocks of 32 in 22 bytes: 5-bit numbers, an fp16 scale
  q5_1 = 7,   ///< blocks of 32 in 24 bytes: 5-bit numbers, an fp16 scale and minimum
  q8_0 = 8,   ///< blocks of 32 in 34 bytes: 8-bit numbers, an fp16 scale
  q4_k = 12,  ///< blocks of 256 in 144 bytes: 4-bit numbers; scale and minimum for each 32
  q6_k = 14,  ///< blocks of 256 in 210 bytes: 6-bit numbers; a scale for each 16
  bf16 = 30,  ///< 2 bytes: the upper half of an f32
};

/// How a format packs its elements: `block_elements` of them share `block_bytes` bytes.
struct DTypeInfo {
  std::string_view name;   ///< as people write it, e.g. "Q8_0"
  int block_elements = 0;  ///< elements per block; 1 for plain floats
  int block_bytes = 0;     ///< bytes per block
};

/// Source: the block layouts of ggml (ggml-common.h).
/// \return the packing of `dtype`; an unknown value gives block_elements 0
constexpr DTypeInfo info(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return {"F32", 1, 4};
    case DType::f16:
      return {"F16", 1, 2};
    case DType::bf16:
      return {"BF16", 1, 2};
    case DType::q4_0:
      return {"Q4_0", 32, 18};
    case DType::q4_1:
      return {"Q4_1", 32, 20};
    case DType::q5_0:
      return {"Q5_0", 32, 22};
    case DType::q5_1:
      return {"Q5_1", 32, 24};
    case DType::q8_0:
      return {"Q8_0", 32, 34};
    case DType::q4_k:
      return {"Q4_K", 256, 144};
    case DType::q6_k:
      return {"Q6_K", 256, 210};
  }
  return {"unknown", 0, 0};
}

/// bfloat16: the upper half of a float.
struct bf16 {
  std::uint16_t bits = 0;  ///< sign, 8 bits of exponent, 7 of fraction
};

/// IEEE 754 binary16.
struct f16 {
  std::uint16_t bits = 0;  ///< sign, 5 bits of exponent, 10 of fraction
};

/// The number itself, so that code for any format covers float.
inline float to_float(float x) { return x; }

/// Exact.
inline float to_float(bf16 x) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16);
}

/// Exact, subnormals, infinities and NaN included. Branch-free except for the exponent's ends.
inline float to_float(f16 x) {
  const std::uint32_t sign = static_cast<std::uint32_t>(x.bits & 0x8000u) << 16;
  const std::uint32_t magnitude = x.bits & 0x7fffu;
  if (magnitude >= 0x7c00u)  // infinity or NaN: keep the payload
    return std::bit_cast<float>(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
  // Read as a float whose exponent is too small by 112, then multiply by 2^112: exact for
  // normal and subnormal halves alike.
  const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(scaled));
}

/// Rounds to nearest, ties to even; NaN stays NaN.
inline bf16 to_bf16(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<std::uint16_t>((bits >> 16) | 0x40u)};
  return {static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

/// Rounds to nearest, ties to even; overflow gives infinity, NaN stays NaN.
inline f16 to_f16(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  const std::uint16_t sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return {static_cast<std::uint16_t>(sign | 0x7e00u)};
  if (magnitude >= 0x477ff000u) return {static_cast<std::uint16_t>(sign | 0x7c00u)};
  if (magnitude < 0x38800000u) {
    // Subnormal result: adding 0.5 leaves the rounded value in the low bits of the sum.
    const float sum = std::bit_cast<float>(magnitude) + 0.5f;
    return {static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(sum) - 0x3f000000u))};
  }
  const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return {static_cast<std::uint16_t>(sign | ((rounded - 0x38000000u) >> 13))};
}

}  // namespace kv
