// The 16-bit floats against arithmetic in double: all of them, and all ways to round.
#include <bit>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>

#include "kv/dtype.hpp"

#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// What a 16-bit float with so many exponent and fraction bits stands for, by the definition.
double value_of(std::uint32_t bits, int exponent_bits, int fraction_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = static_cast<int>(bits >> fraction_bits) & ((1 << exponent_bits) - 1);
  const double fraction = bits & ((1u << fraction_bits) - 1);
  const double sign = (bits >> 15) != 0 ? -1.0 : 1.0;
  if (exponent == (1 << exponent_bits) - 1)
    return fraction == 0.0 ? sign * kInfinity : std::numeric_limits<double>::quiet_NaN();
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp(1.0 + std::ldexp(fraction, -fraction_bits), exponent - bias);
}

double half_value(std::uint32_t bits) { return value_of(bits, 5, 10); }
double bf16_value(std::uint32_t bits) { return value_of(bits, 8, 7); }

bool same_number(float actual, double expected) {
  if (std::isnan(expected)) return std::isnan(actual);
  return actual == expected && std::signbit(actual) == std::signbit(expected);
}

/// The bits of the nearest 16-bit float, by bisection over the positive ones, which are ordered.
/// Ties go to even bits. Past the largest finite number, the next power of two stands for infinity.
template <typename ValueOf>
std::uint32_t nearest(float x, std::uint32_t infinity_bits, ValueOf value_of_bits) {
  const std::uint32_t sign = std::signbit(x) ? 0x8000u : 0u;
  const double magnitude = std::fabs(static_cast<double>(x));
  std::uint32_t low = 0, high = infinity_bits;  // value(low) <= magnitude < value(high)
  if (std::isinf(x)) return sign | infinity_bits;
  while (high - low > 1) {
    const std::uint32_t middle = (low + high) / 2;
    (value_of_bits(middle) <= magnitude ? low : high) = middle;
  }
  const double step_end =
      high == infinity_bits ? 2 * value_of_bits(low) - value_of_bits(low - 1) : value_of_bits(high);
  const double below = magnitude - value_of_bits(low);
  const double above = step_end - magnitude;
  if (below < above) return sign | low;
  if (above < below) return sign | high;
  return sign | (low % 2 == 0 ? low : high);
}

/// Checks both conversions of one float; false with a message on the first that is wrong.
bool rounds_right(float x) {
  const std::uint32_t half = kv::to_f16(x).bits;
  const std::uint32_t brain = kv::to_bf16(x).bits;
  if (std::isnan(x))
    return std::isnan(half_value(half)) && std::isnan(bf16_value(brain)) &&
           (half >> 15) == static_cast<std::uint32_t>(std::signbit(x)) &&
           (brain >> 15) == static_cast<std::uint32_t>(std::signbit(x));
  return half == nearest(x, 0x7c00u, half_value) && brain == nearest(x, 0x7f80u, bf16_value);
}

/// A float and its neighbours on either side.
bool neighbourhood_rounds_right(float x) {
  return rounds_right(x) && rounds_right(std::nextafter(x, INFINITY)) &&
         rounds_right(std::nextafter(x, -INFINITY));
}

}  // namespace

TEST_CASE("halves: all 65536 widen to the number that their bits define", "[dtype]") {
  int num_wrong = 0;
  for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const auto b = static_cast<std::uint16_t>(bits);
    if (!same_number(kv::to_float(kv::f16{b}), half_value(bits))) ++num_wrong;
    if (!same_number(kv::to_float(kv::bf16{b}), bf16_value(bits))) ++num_wrong;
  }
  CHECK(num_wrong == 0);
}

TEST_CASE("halves: all 65536 survive widening and narrowing, and a NaN stays one", "[dtype]") {
  int num_wrong = 0;
  for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const auto b = static_cast<std::uint16_t>(bits);
    const std::uint32_t half = kv::to_f16(kv::to_float(kv::f16{b})).bits;
    const std::uint32_t brain = kv::to_bf16(kv::to_float(kv::bf16{b})).bits;
    const bool half_right =
        std::isnan(half_value(bits)) ? std::isnan(half_value(half)) : half == bits;
    const bool brain_right =
        std::isnan(bf16_value(bits)) ? std::isnan(bf16_value(brain)) : brain == bits;
    if (!half_right || !brain_right) ++num_wrong;
  }
  CHECK(num_wrong == 0);
}

TEST_CASE("halves: rounding goes to the nearest, and from the middle to the even one", "[dtype]") {
  int num_wrong = 0;
  const auto check_between = [&num_wrong](double a, double b) {
    for (const double x : {a, b, (a + b) / 2, a + (b - a) / 4, a + (b - a) * 3 / 4})
      for (const double sign : {1.0, -1.0})
        if (!neighbourhood_rounds_right(static_cast<float>(sign * x))) ++num_wrong;
  };
  for (std::uint32_t bits = 0; bits < 0x7bff; ++bits)
    check_between(half_value(bits), half_value(bits + 1));
  for (std::uint32_t bits = 0; bits < 0x7f7f; bits += 3)
    check_between(bf16_value(bits), bf16_value(bits + 1));
  CHECK(num_wrong == 0);
}

TEST_CASE("halves: the ends of the range round to zero and to infinity", "[dtype]") {
  CHECK(kv::to_f16(65504.0f).bits == 0x7bff);
  CHECK(kv::to_f16(65519.996f).bits == 0x7bff);
  CHECK(kv::to_f16(65520.0f).bits == 0x7c00);  // the middle; the largest finite half is odd
  CHECK(kv::to_f16(-1e30f).bits == 0xfc00);
  CHECK(kv::to_f16(0x1p-25f).bits == 0);  // half the smallest subnormal: to even zero
  CHECK(kv::to_f16(std::nextafter(0x1p-25f, 1.0f)).bits == 1);
  CHECK(kv::to_f16(-0.0f).bits == 0x8000);
  CHECK(kv::to_f16(std::numeric_limits<float>::denorm_min()).bits == 0);
  CHECK(kv::to_bf16(std::numeric_limits<float>::max()).bits == 0x7f80);
  CHECK(kv::to_bf16(-0.0f).bits == 0x8000);
  // A NaN whose payload lies in the lower half only must not become infinity.
  const float quiet_low = std::bit_cast<float>(0x7f800001u);
  CHECK(std::isnan(kv::to_float(kv::to_bf16(quiet_low))));
  CHECK(std::isnan(kv::to_float(kv::to_f16(quiet_low))));
}

TEST_CASE("halves: random floats of every exponent round right", "[dtype]") {
  std::mt19937 random(11);
  int num_wrong = 0;
  for (int i = 0; i < 300000; ++i)
    if (!rounds_right(std::bit_cast<float>(static_cast<std::uint32_t>(random())))) ++num_wrong;
  CHECK(num_wrong == 0);
}

#if defined(__F16C__)
TEST_CASE("halves: the processor's own conversion agrees", "[dtype]") {
  int num_wrong = 0;
  for (std::uint64_t bits = 0; bits <= 0xffffffffu; bits += 251) {  // a prime: 17 million floats
    const float x = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    if (std::isnan(x)) continue;
    const auto theirs = static_cast<std::uint16_t>(_cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT));
    if (kv::to_f16(x).bits != theirs) ++num_wrong;
  }
  CHECK(num_wrong == 0);
}
#endif

TEST_CASE("formats: every block has its published size, and an unknown one has none", "[dtype]") {
  using kv::DType;
  CHECK(kv::info(DType::f32).block_bytes == 4);
  CHECK(kv::info(DType::q4_0).block_bytes == 2 + 16);
  CHECK(kv::info(DType::q4_1).block_bytes == 2 + 2 + 16);
  CHECK(kv::info(DType::q5_0).block_bytes == 2 + 4 + 16);
  CHECK(kv::info(DType::q5_1).block_bytes == 2 + 2 + 4 + 16);
  CHECK(kv::info(DType::q8_0).block_bytes == 2 + 32);
  CHECK(kv::info(DType::q4_k).block_bytes == 2 + 2 + 12 + 128);
  CHECK(kv::info(DType::q6_k).block_bytes == 128 + 64 + 16 + 2);
  for (const std::uint32_t unknown : {4u, 5u, 9u, 10u, 11u, 13u, 15u, 29u, 31u, 255u, 0xffffffffu})
    CHECK(kv::info(static_cast<DType>(unknown)).block_elements == 0);
}
