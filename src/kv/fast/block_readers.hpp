// Quantised weights as vectors: one reader per format, used by every product.
//
// A reader stands on 32 consecutive elements of a row:  w[i] = scale * values(i) + offset.
// values() are small integers held as floats, so they are exact; the factor is applied to the sum
// of a whole block. dequantize.cpp has the same formats as plain loops, which the tests compare.
//
// Source: the block layouts of ggml (ggml-common.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kv/fast/vec.hpp"

/// How each storage format is read kWidth elements at a time.
namespace kv::readers {

using simd::BitVec;
using simd::IntVec;
using simd::kWidth;
using simd::Vec;

/// Elements one reader stands on.
inline constexpr int kBlock = 32;

/// kWidth unsigned bytes, each in a 32-bit lane.
inline BitVec load_bytes(const std::byte* from) {
  return simd::widen_bits(simd::load_as<simd::UByteVec>(from));
}

/// Small non-negative lanes minus `zero`, as floats.
inline Vec centred(BitVec lanes, int zero) {
  return __builtin_convertvector(std::bit_cast<IntVec>(lanes) - zero, Vec);
}

/// Reads an fp16 scale from any address.
inline float load_scale(const std::byte* from) { return simd::widen(simd::load_as<f16>(from)); }

/// Elements i .. i + kWidth - 1 of 32 nibbles: bytes 0..15 hold 0..15 low and 16..31 high.
inline BitVec nibbles(const std::byte* bytes, int i) {
  BitVec lanes = load_bytes(bytes + i % 16);
#if defined(__clang__) && defined(__AVX2__)
  // Opaque to clang, which else masks the bytes first and then widens low and high nibbles apart:
  // twice the shuffles, and Q4_1 products ran at 5.0 instead of 6.2 GB/s.
  asm("" : "+x"(lanes));
#endif
  return i < 16 ? lanes & 0xfu : lanes >> 4;
}

/// Bit i + lane of `bits`, moved to bit 4.
inline BitVec fifth_bit(std::uint32_t bits, int i) {
  BitVec lane;
  for (int n = 0; n < kWidth; ++n) lane[n] = static_cast<std::uint32_t>(n);
  return (((bits >> i) - BitVec{}) >> lane & 1u) << 4;
}

/// {f16 scale, int8 q[32]}: w = scale * q.
struct Q8_0 {
  static constexpr bool kHasOffset = false;
  Q8_0(const std::byte* row, std::int64_t b) : q(row + b * 34 + 2), scale(load_scale(q - 2)) {}
  Vec values(int i) const { return simd::load(reinterpret_cast<const std::int8_t*>(q) + i); }
  const std::byte* data() const { return q; }
  const std::byte* q;
  float scale;
  static constexpr float offset = 0.0f;
};

/// {f16 scale, nibbles[32]}: w = scale * (q - 8).
struct Q4_0 {
  static constexpr bool kHasOffset = false;
  Q4_0(const std::byte* row, std::int64_t b) : q(row + b * 18 + 2), scale(load_scale(q - 2)) {}
  Vec values(int i) const { return centred(nibbles(q, i), 8); }
  const std::byte* data() const { return q; }
  const std::byte* q;
  float scale;
  static constexpr float offset = 0.0f;
};

/// {f16 scale, f16 offset, nibbles[32]}: w = scale * q + offset.
struct Q4_1 {
  static constexpr bool kHasOffset = true;
  Q4_1(const std::byte* row, std::int64_t b)
      : q(row + b * 20 + 4), scale(load_scale(q - 4)), offset(load_scale(q - 2)) {}
  Vec values(int i) const { return centred(nibbles(q, i), 0); }
  const std::byte* data() const { return q; }
  const std::byte* q;
  float scale, offset;
};

/// {f16 scale, fifth bits, nibbles[32]}: w = scale * (q - 16).
struct Q5_0 {
  static constexpr bool kHasOffset = false;
  Q5_0(const std::byte* row, std::int64_t b)
      : q(row + b * 22 + 6), high(simd::load_as<std::uint32_t>(q - 4)), scale(load_scale(q - 6)) {}
  Vec values(int i) const { return centred(nibbles(q, i) | fifth_bit(high, i), 16); }
  const std::byte* data() const { return q; }
  const std::byte* q;
  std::uint32_t high;
  float scale;
  static constexpr float offset = 0.0f;
};

/// {f16 scale, f16 offset, fifth bits, nibbles[32]}: w = scale * q + offset.
struct Q5_1 {
  static constexpr bool kHasOffset = true;
  Q5_1(const std::byte* row, std::int64_t b)
      : q(row + b * 24 + 8),
        high(simd::load_as<std::uint32_t>(q - 4)),
        scale(load_scale(q - 8)),
        offset(load_scale(q - 6)) {}
  Vec values(int i) const { return centred(nibbles(q, i) | fifth_bit(high, i), 0); }
  const std::byte* data() const { return q; }
  const std::byte* q;
  std::uint32_t high;
  float scale, offset;
};

/// 256 elements {f16 d, f16 d_min, 8 x (6-bit scale, 6-bit min) in 12 bytes, nibbles[256]}:
/// w = d * scale * q - d_min * min. Each 32 bytes of nibbles hold two runs of 32 elements.
struct Q4_K {
  static constexpr bool kHasOffset = true;
  Q4_K(const std::byte* row, std::int64_t b) {
    const std::byte* super = row + b / 8 * 144;
    const int run = static_cast<int>(b % 8);
    const auto* packed = reinterpret_cast<const std::uint8_t*>(super) + 4;
    const int scale6 =
        run < 4 ? packed[run] & 63 : (packed[run + 4] & 15) | (packed[run - 4] >> 6) << 4;
    const int min6 =
        run < 4 ? packed[run + 4] & 63 : packed[run + 4] >> 4 | (packed[run] >> 6) << 4;
    scale = load_scale(super) * static_cast<float>(scale6);
    offset = -load_scale(super + 2) * static_cast<float>(min6);
    q = super + 16 + run / 2 * 32;
    shift = run % 2 * 4;
  }
  Vec values(int i) const { return centred(load_bytes(q + i) >> shift & 0xfu, 0); }
  const std::byte* data() const { return q; }
  const std::byte* q;
  std::uint32_t shift;
  float scale, offset;
};

/// 256 elements {low nibbles[256], high pairs of bits[256], int8 scales[16], f16 d}:
/// w = d * scale[i / 16] * (q - 32). values() already contain the 8-bit scale: still exact.
struct Q6_K {
  static constexpr bool kHasOffset = false;
  Q6_K(const std::byte* row, std::int64_t b) {
    const std::byte* super = row + b / 8 * 210;
    const int half = static_cast<int>(b % 8) / 4, run = static_cast<int>(b % 4);
    low = super + half * 64 + run % 2 * 32;
    low_shift = run / 2 * 4;
    high = super + 128 + half * 32;
    high_shift = run * 2;
    scales = reinterpret_cast<const std::int8_t*>(super) + 192 + half * 8 + run * 2;
    scale = load_scale(super + 208);
  }
  Vec values(int i) const {
    const BitVec q =
        (load_bytes(low + i) >> low_shift & 0xfu) | (load_bytes(high + i) >> high_shift & 3u) << 4;
    return centred(q, 32) * static_cast<float>(scales[i / 16]);
  }
  const std::byte* data() const { return low; }
  const std::byte *low, *high;
  const std::int8_t* scales;
  std::uint32_t low_shift, high_shift;
  float scale;
  static constexpr float offset = 0.0f;
};

/// Widens `count` elements (a multiple of 32) of a row from element `first` (also one) on into
/// `out`.
template <class Reader>
inline void widen_blocks(const std::byte* row, std::int64_t first, std::int64_t count, float* out) {
  for (std::int64_t b = 0; b < count / kBlock; ++b) {
    const Reader block(row, first / kBlock + b);
    for (int i = 0; i < kBlock; i += kWidth)
      simd::store(out + b * kBlock + i, block.values(i) * block.scale + block.offset);
  }
}

/// Widens `count` elements of a row of floats of any kind, from element `first` on, into `out`.
template <class T>
inline void widen_floats(const std::byte* row, std::int64_t first, std::int64_t count, float* out) {
  const T* from = reinterpret_cast<const T*>(row) + first;
  std::int64_t i = 0;
  for (; i + kWidth <= count; i += kWidth) simd::store(out + i, simd::load(from + i));
  for (; i < count; ++i) out[i] = to_float(from[i]);
}

}  // namespace kv::readers
