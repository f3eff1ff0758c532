#include <bit>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kv/fast/exp.hpp"
#include "kv/fast/tile.hpp"
#include "support/span_state.hpp"

using kv::simd::kWidth;
using kv::simd::Vec;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

float exp_of(float x) { return kv::simd::exp(kv::simd::broadcast(x))[0]; }

}  // namespace

TEST_CASE("simd: every fp16 pattern widens as the scalar conversion does, twin included",
          "[simd]") {
  for (std::uint32_t first = 0; first < 0x10000; first += kWidth) {
    kv::simd::HalfVec halves;
    for (int i = 0; i < kWidth; ++i) halves[i] = static_cast<std::uint16_t>(first + i);
    const Vec fast = kv::simd::widen_f16(halves);
    const Vec portable = kv::simd::widen_f16_portable(halves);
    for (int i = 0; i < kWidth; ++i) {
      const kv::f16 half{static_cast<std::uint16_t>(first + i)};
      const float expected = kv::to_float(half);
      if (std::isnan(expected)) {
        REQUIRE((std::isnan(fast[i]) && std::isnan(portable[i])));
        REQUIRE(std::isnan(kv::simd::widen(half)));
        continue;
      }
      const auto bits = std::bit_cast<std::uint32_t>(expected);
      REQUIRE(std::bit_cast<std::uint32_t>(float{fast[i]}) == bits);
      REQUIRE(std::bit_cast<std::uint32_t>(float{portable[i]}) == bits);
      REQUIRE(std::bit_cast<std::uint32_t>(kv::simd::widen(half)) == bits);
    }
  }
}

TEST_CASE("simd: bf16 and int8 load exactly, from any address", "[simd]") {
  for (std::uint32_t first = 0; first < 0x7f80; first += kWidth) {
    std::vector<kv::bf16> numbers(kWidth);
    for (int i = 0; i < kWidth; ++i) numbers[i].bits = static_cast<std::uint16_t>(first + i);
    const Vec v = kv::simd::load(numbers.data());
    for (int i = 0; i < kWidth; ++i) REQUIRE(v[i] == kv::to_float(numbers[i]));
  }
  std::vector<std::int8_t> bytes(256 + kWidth);
  for (int i = 0; i < 256 + kWidth; ++i) bytes[i] = static_cast<std::int8_t>(i - 128);
  for (int first = 0; first < 256; ++first)
    for (int i = 0; i < kWidth; ++i)
      REQUIRE(kv::simd::load(bytes.data() + first)[i] == static_cast<float>(bytes[first + i]));
}

TEST_CASE("simd: every byte and 16-bit pattern widens like its portable twin", "[simd]") {
  for (int first = 0; first < 256; ++first) {
    kv::simd::UByteVec bytes;
    for (int i = 0; i < kWidth; ++i) bytes[i] = static_cast<std::uint8_t>(first + 37 * i);
    const auto signed_bytes = std::bit_cast<kv::simd::ByteVec>(bytes);
    for (int i = 0; i < kWidth; ++i) {
      REQUIRE(kv::simd::widen_bits(bytes)[i] == static_cast<std::uint8_t>(first + 37 * i));
      REQUIRE(kv::simd::widen_bits_portable(bytes)[i] == kv::simd::widen_bits(bytes)[i]);
      REQUIRE(kv::simd::widen_bytes(signed_bytes)[i] == static_cast<std::int8_t>(first + 37 * i));
      REQUIRE(kv::simd::widen_bytes_portable(signed_bytes)[i] ==
              kv::simd::widen_bytes(signed_bytes)[i]);
    }
  }
  for (int first = 0; first < 0x10000; first += 97) {
    kv::simd::HalfVec halves;
    for (int i = 0; i < kWidth; ++i) halves[i] = static_cast<std::uint16_t>(first + 4099 * i);
    for (int i = 0; i < kWidth; ++i) {
      REQUIRE(kv::simd::widen_bits(halves)[i] == static_cast<std::uint16_t>(first + 4099 * i));
      REQUIRE(kv::simd::widen_bits_portable(halves)[i] == kv::simd::widen_bits(halves)[i]);
    }
  }
}

TEST_CASE("simd: exp is within 2 units in the last place, and right at its ends", "[simd]") {
  double worst = 0.0;
  float worst_x = 0.0f;
  const auto check = [&](float x) {
    const double expected = std::exp(double{x});
    const float actual = exp_of(x);
    const double unit = std::ldexp(1.0, std::ilogb(expected) - 23);
    const double error = std::fabs(actual - expected) / unit;
    if (error > worst) worst = error, worst_x = x;
  };
  for (int i = -87300; i <= 88000; ++i) check(static_cast<float>(i) * 1e-3f);
  for (int i = -1000; i <= 1000; ++i) check(static_cast<float>(i) * 1e-6f);
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-87.3f, 88.0f);
  for (int i = 0; i < 200000; ++i) check(uniform(random));
  INFO("worst error " << worst << " units in the last place at " << worst_x);
  REQUIRE(worst <= 2.0);

  REQUIRE(exp_of(0.0f) == 1.0f);
  REQUIRE(exp_of(-0.0f) == 1.0f);
  for (const float x : {-87.4f, -100.0f, -1e4f, -3e38f, -kInfinity}) REQUIRE(exp_of(x) == 0.0f);
  for (const float x : {88.4f, 1e4f, kInfinity}) REQUIRE(exp_of(x) == kInfinity);
  // Any NaN, whatever its bits, stays one.
  for (const std::uint32_t bits : {0x7fc00000u, 0xffc00000u, 0xffffffffu, 0x7fffffffu, 0x7f800001u})
    REQUIRE(std::isnan(exp_of(std::bit_cast<float>(bits))));
}

TEST_CASE("simd: lanes add up, one vector or four at a time", "[simd]") {
  Vec v[4];
  float expected[4] = {};
  for (int n = 0; n < 4; ++n) {
    for (int i = 0; i < kWidth; ++i) {
      v[n][i] = static_cast<float>(1 << n) + static_cast<float>(i);  // small integers: exact
      expected[n] += v[n][i];
    }
  }
  const kv::simd::Vec4 four = kv::simd::sums(v[0], v[1], v[2], v[3]);
  for (int n = 0; n < 4; ++n) {
    REQUIRE(four[n] == expected[n]);
    REQUIRE(kv::simd::sum(v[n]) == expected[n]);
    REQUIRE(kv::simd::max_lane(v[n]) == static_cast<float>(1 << n) + kWidth - 1.0f);
  }
}

TEST_CASE("simd: transposing writes the transposed matrix and nothing else", "[simd]") {
  std::mt19937 random(2);
  for (const int rows : {0, 1, 3, 4, 5, 8, 11, 16}) {
    for (const int cols : {0, 1, 2, 4, 7, 8, 13, 64}) {
      const std::vector<float> from = kv_test::normals(rows * (cols + 2) + 1, random);
      std::vector<float> to(cols * (rows + 3) + 1, kNan);
      kv::simd::transpose(from.data(), cols + 2, rows, cols, to.data(), rows + 3);
      for (int j = 0; j < cols; ++j) {
        for (int i = 0; i < rows + 3; ++i) {
          const float value = to[j * (rows + 3) + i];
          if (i < rows) REQUIRE(value == from[i * (cols + 2) + j]);
          if (i >= rows) REQUIRE(std::isnan(value));
        }
      }
    }
  }
}

TEST_CASE("simd: the register block multiplies any number of rows exactly", "[simd]") {
  // Small integers: every sum is exact, so every order gives the same bits.
  std::mt19937 random(3);
  const auto integers = [&](std::int64_t count) {
    std::vector<float> values(count);
    for (float& x : values) x = static_cast<float>(static_cast<int>(random() % 17) - 8);
    return values;
  };
  constexpr int kCols = kv::simd::kTileCols;
  for (int rows = 0; rows <= 2 * kv::simd::kTileRows + 1; ++rows) {
    for (const int depth : {0, 1, 5, 40}) {
      for (const bool accumulate : {false, true}) {
        const std::vector<float> a = integers(rows * (depth + 1) + 1);
        const std::vector<float> b = integers(depth * (kCols + 2) + 1);
        std::vector<float> c = integers((rows + 1) * (kCols + 3));
        const std::vector<float> before = c;
        kv::simd::multiply_rows<kv::simd::kTileVecs>(rows, a.data(), depth + 1, b.data(), kCols + 2,
                                                     depth, c.data(), kCols + 3, accumulate);
        for (int r = 0; r <= rows; ++r) {
          for (int n = 0; n < kCols + 3; ++n) {
            const int at = r * (kCols + 3) + n;
            float expected = before[at];
            if (r < rows && n < kCols) {
              expected = accumulate ? before[at] : 0.0f;
              for (int k = 0; k < depth; ++k)
                expected += a[r * (depth + 1) + k] * b[k * (kCols + 2) + n];
            }
            REQUIRE(c[at] == expected);
          }
        }
      }
    }
  }
}
