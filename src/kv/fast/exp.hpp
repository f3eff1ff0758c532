// exp() for whole vectors, without branches or tables.
#pragma once

#include "kv/fast/vec.hpp"

namespace kv::simd {

/// e^x by lanes, within 2 units in the last place (tested over the whole range).
///
/// Below -87.33 the result is 0 (the true value would be subnormal), so -infinity gives 0; above
/// 88.37 it is infinity, a little before a float's range ends. NaN gives NaN.
///
/// e^x = 2^n e^r with n the integer nearest to x / ln 2, so |r| <= ln(2) / 2. The polynomial in r
/// interpolates (e^r - 1 - r) / r^2 at Chebyshev's nodes; its own error is 0.17 of half a unit.
inline Vec exp(Vec x) {
  constexpr float kLowest = -87.33654f;     // ln of the smallest normal float
  constexpr float kHighest = 89.0f;         // n = 128: the exponent bits of infinity
  constexpr float kRounder = 0x1.8p23f;     // adding it leaves the nearest integer in the low bits
  constexpr float kLn2High = 0.693359375f;  // 9 bits: n * kLn2High is exact
  constexpr float kLn2Low = -2.12194440e-4f;

  // Written so that a NaN fails the comparison and stays.
  const Vec lowest = broadcast(kLowest), highest = broadcast(kHighest);
  Vec bounded = x < lowest ? lowest : x;
  bounded = bounded > highest ? highest : bounded;

  const Vec shifted = bounded * 1.44269504f + kRounder;
  const Vec n = shifted - kRounder;
  const Vec r = bounded - n * kLn2High - n * kLn2Low;
  Vec p = r * 1.3926176e-3f + 8.3631731e-3f;
  p = p * r + 4.16665547e-2f;
  p = p * r + 1.66665770e-1f;
  p = p * r + 0.5f;
  const Vec e = (p * r * r + r) + 1.0f;

  // 2^n: n + 127 as exponent bits. A product, so that a NaN in e survives.
  const BitVec power = (std::bit_cast<BitVec>(shifted) << 23) + 0x3f800000u;
  const Vec zero = {};
  return x < lowest ? zero : e * std::bit_cast<Vec>(power);
}

}  // namespace kv::simd
