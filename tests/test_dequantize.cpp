// Every storage format against numbers worked out by hand and by another implementation.
#include <algorithm>
#include <bit>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <random>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "kv/model/dequantize.hpp"
using kv::DType;

namespace {

using Bytes = std::vector<std::byte>;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr DType kAllFormats[] = {DType::f32,  DType::f16,  DType::bf16, DType::q4_0, DType::q4_1,
                                 DType::q5_0, DType::q5_1, DType::q8_0, DType::q4_k, DType::q6_k};

/// A block of zeros whose first half is `d`, and whose second one is `m` where there is one.
Bytes block(DType dtype, float d, float m = 0.0f) {
  Bytes bytes(static_cast<std::size_t>(kv::info(dtype).block_bytes));
  const kv::f16 halves[2] = {kv::to_f16(d), kv::to_f16(m)};
  std::memcpy(bytes.data(), halves, sizeof(halves));
  return bytes;
}

/// Widens one block into poisoned floats.
std::vector<float> widen(DType dtype, const Bytes& bytes) {
  std::vector<float> out(static_cast<std::size_t>(kv::info(dtype).block_elements), kNan);
  kv::dequantize_blocks(dtype, bytes.data(), out);
  return out;
}

/// Blocks of random bytes whose scales are finite.
Bytes random_blocks(DType dtype, int num_blocks, std::uint32_t seed) {
  std::mt19937 random(seed);
  Bytes bytes(static_cast<std::size_t>(num_blocks * kv::info(dtype).block_bytes));
  for (std::byte& b : bytes) b = static_cast<std::byte>(random() & 0x3b);  // exponent never full
  return bytes;
}

}  // namespace

TEST_CASE("dequantize: Q8_0 is a scale times signed bytes", "[dequantize]") {
  Bytes bytes = block(DType::q8_0, 0.5f);
  bytes[2] = std::byte{1};
  bytes[3] = std::byte{0xff};   // -1
  bytes[4] = std::byte{0x80};   // -128
  bytes[33] = std::byte{0x7f};  // 127
  const auto x = widen(DType::q8_0, bytes);
  CHECK(x[0] == 0.5f);
  CHECK(x[1] == -0.5f);
  CHECK(x[2] == -64.0f);
  CHECK(x[3] == 0.0f);
  CHECK(x[31] == 63.5f);
}

TEST_CASE("dequantize: Q4_0 keeps elements 0 to 15 in the low halves, 16 to 31 in the high ones",
          "[dequantize]") {
  Bytes bytes = block(DType::q4_0, 2.0f);
  bytes[2] = std::byte{0xf1};   // element 0 is 1, element 16 is 15
  bytes[17] = std::byte{0x8a};  // element 15 is 10, element 31 is 8
  const auto x = widen(DType::q4_0, bytes);
  CHECK(x[0] == 2.0f * (1 - 8));
  CHECK(x[16] == 2.0f * (15 - 8));
  CHECK(x[15] == 2.0f * (10 - 8));
  CHECK(x[31] == 0.0f);
  CHECK(x[1] == -16.0f);
}

TEST_CASE("dequantize: Q4_1 adds a minimum", "[dequantize]") {
  Bytes bytes = block(DType::q4_1, 0.25f, -3.0f);
  bytes[4] = std::byte{0xf1};
  const auto x = widen(DType::q4_1, bytes);
  CHECK(x[0] == 0.25f - 3.0f);
  CHECK(x[16] == 15 * 0.25f - 3.0f);
  CHECK(x[1] == -3.0f);
}

TEST_CASE("dequantize: the fifth bit of element i is bit i of the word before the halves",
          "[dequantize]") {
  const auto fifth_bit_of = [](Bytes bytes, std::size_t word, int element) {
    bytes[word + static_cast<std::size_t>(element / 8)] = static_cast<std::byte>(1 << element % 8);
    return bytes;
  };
  for (int element = 0; element < 32; ++element) {
    const auto x = widen(DType::q5_0, fifth_bit_of(block(DType::q5_0, 1.0f), 2, element));
    const auto y = widen(DType::q5_1, fifth_bit_of(block(DType::q5_1, 1.0f, 2.0f), 4, element));
    for (int i = 0; i < 32; ++i) {
      INFO("bit " << element << ", element " << i);
      CHECK(x[static_cast<std::size_t>(i)] == (i == element ? 0.0f : -16.0f));
      CHECK(y[static_cast<std::size_t>(i)] == (i == element ? 18.0f : 2.0f));
    }
  }
}

TEST_CASE("dequantize: each part of a Q4_K block has its own six-bit scale and minimum",
          "[dequantize]") {
  // Scales 1 + 8 p and minima 60 - 7 p for parts p = 0..7, packed as the format says.
  const int scale[8] = {1, 9, 17, 25, 33, 41, 49, 57};
  const int minimum[8] = {60, 53, 46, 39, 32, 25, 18, 11};
  Bytes bytes = block(DType::q4_k, 1.0f, 1.0f);
  for (int p = 0; p < 4; ++p) {
    const auto at = static_cast<std::size_t>(4 + p);
    bytes[at] = static_cast<std::byte>(scale[p] | (scale[p + 4] >> 4) << 6);
    bytes[at + 4] = static_cast<std::byte>(minimum[p] | (minimum[p + 4] >> 4) << 6);
    bytes[at + 8] = static_cast<std::byte>((scale[p + 4] & 15) | (minimum[p + 4] & 15) << 4);
  }
  // Low halves 3 and high halves 5: even parts hold 3 everywhere, odd parts 5.
  for (std::size_t i = 16; i < bytes.size(); ++i) bytes[i] = std::byte{0x53};
  const auto x = widen(DType::q4_k, bytes);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t p = i / 32;
    INFO("element " << i);
    CHECK(x[i] == static_cast<float>(scale[p] * (p % 2 == 0 ? 3 : 5) - minimum[p]));
  }
}

TEST_CASE("dequantize: a Q6_K block has a signed scale for every sixteen elements",
          "[dequantize]") {
  Bytes bytes(210);
  for (int s = 0; s < 16; ++s)
    bytes[static_cast<std::size_t>(192 + s)] =
        static_cast<std::byte>(static_cast<std::int8_t>(s - 8));
  const kv::f16 d = kv::to_f16(0.5f);
  std::memcpy(bytes.data() + 208, &d, sizeof(d));
  // Element 32 of each half takes its low bits from byte 32 and the second pair of high bits.
  bytes[32] = std::byte{0x07};
  bytes[128] = std::byte{0x0c};  // bits 2 and 3: the high bits of element 32 are 3
  const auto x = widen(DType::q6_k, bytes);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const int q = i == 32 ? 7 + 3 * 16 : 0;
    const int scale = static_cast<int>(i / 16) - 8;
    INFO("element " << i);
    CHECK(x[i] == 0.5f * static_cast<float>(scale * (q - 32)));
  }
}

TEST_CASE("dequantize: another implementation gives the same numbers, bit for bit",
          "[dequantize]") {
  std::ifstream golden(KV_SOURCE_DIR "/tests/golden/dequantize.txt");
  REQUIRE(golden.is_open());
  const std::map<std::string, DType> formats = {
      {"Q4_0", DType::q4_0}, {"Q4_1", DType::q4_1}, {"Q5_0", DType::q5_0}, {"Q5_1", DType::q5_1},
      {"Q8_0", DType::q8_0}, {"Q4_K", DType::q4_k}, {"Q6_K", DType::q6_k}};
  std::map<std::string, int> num_blocks;
  for (std::string line; std::getline(golden, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream fields(line);
    std::string name, hex;
    fields >> name >> hex;
    const DType dtype = formats.at(name);
    Bytes bytes;
    for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
      bytes.push_back(static_cast<std::byte>(std::stoi(hex.substr(i, 2), nullptr, 16)));
    REQUIRE(static_cast<int>(bytes.size()) == kv::info(dtype).block_bytes);
    for (const float actual : widen(dtype, bytes)) {
      std::string expected;
      REQUIRE(fields >> expected);
      INFO(name << " block " << num_blocks[name]);
      const float number = std::strtof(expected.c_str(), nullptr);
      CHECK(std::bit_cast<std::uint32_t>(actual) == std::bit_cast<std::uint32_t>(number));
    }
    ++num_blocks[name];
  }
  for (const auto& [name, dtype] : formats) CHECK(num_blocks[name] == 3);
}

TEST_CASE("dequantize: a row and every range of it hold what whole blocks hold", "[dequantize]") {
  for (const DType dtype : kAllFormats) {
    const int num_cols = 2 * std::max(kv::info(dtype).block_elements, 5);
    const int num_blocks = num_cols / kv::info(dtype).block_elements;
    const Bytes bytes = random_blocks(dtype, 3 * num_blocks, 7);
    const kv::WeightMatrix w{dtype, 3, num_cols, bytes.data()};
    REQUIRE(w.bytes() == static_cast<std::int64_t>(bytes.size()));

    std::vector<float> all(static_cast<std::size_t>(3 * num_cols), kNan);
    kv::dequantize_blocks(dtype, bytes.data(), all);
    const int step = num_cols > 100 ? 37 : 1;
    for (int row = 0; row < 3; ++row) {
      std::vector<float> whole(static_cast<std::size_t>(num_cols), kNan);
      kv::dequantize_row(w, row, whole);
      CHECK(std::equal(whole.begin(), whole.end(), all.begin() + row * num_cols));
      for (int first = 0; first <= num_cols; first += step)
        for (int count = 0; first + count <= num_cols; count += step) {
          // One float more on either side, to see that nothing else is written.
          std::vector<float> part(static_cast<std::size_t>(count + 2), kNan);
          kv::dequantize_range(w, row, first,
                               std::span(part).subspan(1, static_cast<std::size_t>(count)));
          INFO(kv::info(dtype).name << " row " << row << ", " << first << " + " << count);
          REQUIRE(std::isnan(part.front()));
          REQUIRE(std::isnan(part.back()));
          REQUIRE(
              std::equal(part.begin() + 1, part.end() - 1, all.begin() + row * num_cols + first));
        }
    }
  }
}

TEST_CASE("dequantize: what does not fit is refused", "[dequantize]") {
  const Bytes bytes = random_blocks(DType::q8_0, 4, 1);
  const kv::WeightMatrix w{DType::q8_0, 2, 64, bytes.data()};
  std::vector<float> out(64);
  const auto first = [&out](std::size_t n) { return std::span(out).first(n); };
  CHECK_THROWS_AS(kv::dequantize_blocks(DType::q8_0, bytes.data(), first(31)),
                  std::invalid_argument);
  CHECK_THROWS_AS(kv::dequantize_blocks(static_cast<DType>(13), bytes.data(), first(32)),
                  std::invalid_argument);
  CHECK_THROWS_AS(kv::dequantize_row(w, 2, out), std::invalid_argument);
  CHECK_THROWS_AS(kv::dequantize_row(w, -1, out), std::invalid_argument);
  CHECK_THROWS_AS(kv::dequantize_row(w, 0, first(32)), std::invalid_argument);
  CHECK_THROWS_AS(kv::dequantize_range(w, 0, 1, out), std::invalid_argument);
  CHECK_THROWS_AS(kv::dequantize_range(w, 0, -1, first(1)), std::invalid_argument);
  CHECK_THROWS_AS(kv::dequantize_range(w, 0, std::numeric_limits<std::int64_t>::max(), first(1)),
                  std::invalid_argument);
}
