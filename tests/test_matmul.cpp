#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "kv/model/dequantize.hpp"
#include "kv/fast/linear.hpp"
#include "kv/fast/thread_team.hpp"

namespace {

using kv::DType;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr DType kFormats[] = {DType::f32,  DType::f16,  DType::bf16, DType::q8_0, DType::q4_0,
                              DType::q4_1, DType::q5_0, DType::q5_1, DType::q4_k, DType::q6_k};

// Where a block keeps its fp16 factors.
std::vector<int> scale_offsets(DType dtype) {
  if (dtype == DType::q4_1 || dtype == DType::q5_1 || dtype == DType::q4_k) return {0, 2};
  if (dtype == DType::q6_k) return {208};
  return {0};
}

// Where a block with an offset keeps its integers: with all of them 0, the offset is left.
int first_code_byte(DType dtype) {
  if (dtype == DType::q4_1 || dtype == DType::q5_1) return 4;
  if (dtype == DType::q4_k) return 16;
  return -1;
}

// A matrix of random bits with sensible factors; the vector is exactly as long as the rows, so
// that the address sanitizer sees every byte read too far.
struct RandomMatrix {
  RandomMatrix(DType dtype, std::int64_t rows, std::int64_t cols, std::mt19937& random)
      : view{dtype, rows, cols, nullptr}, bytes(view.bytes()) {
    std::normal_distribution<float> normal;
    const int step = kv::info(dtype).block_bytes;
    for (std::byte& b : bytes) b = static_cast<std::byte>(random());
    for (std::size_t at = 0; at < bytes.size(); at += step) {
      const float x = normal(random);
      const auto put = [&](auto value, int offset) {
        std::memcpy(&bytes[at + offset], &value, sizeof value);
      };
      if (dtype == DType::f32) put(x, 0);
      if (dtype == DType::f16) put(kv::to_f16(x), 0);
      if (dtype == DType::bf16) put(kv::to_bf16(x), 0);
      if (kv::info(dtype).block_elements > 1)
        for (const int offset : scale_offsets(dtype))
          put(kv::to_f16(0.1f * normal(random)), offset);
    }
    view.data = bytes.data();
  }
  kv::WeightMatrix view;
  std::vector<std::byte> bytes;
};

std::vector<float> widened(const kv::WeightMatrix& w) {
  std::vector<float> values(w.num_rows * w.num_cols);
  for (std::int64_t r = 0; r < w.num_rows; ++r)
    kv::dequantize_row(w, r,
                       {values.data() + r * w.num_cols, static_cast<std::size_t>(w.num_cols)});
  return values;
}

// Every product against sums in double.
//
// A sum of terms t_i in floats is off by at most n u sum |t_i| to first order, where u = 2^-24 and
// n is the most roundings any term goes through (Higham 2002, section 4.2). A dot adds in at least
// 4 lanes, so n <= cols / 4 + 24; a panel adds up to 352 terms in order, then the parts (of 64 or
// more columns). In formats with an offset the terms are scale * q * x and offset * x, which may
// cancel.
void check_product(const RandomMatrix& matrix, std::int64_t num_x, std::mt19937& random) {
  const kv::WeightMatrix& w = matrix.view;
  const std::vector<float> values = widened(w);
  std::vector<float> offsets(values.size(), 0.0f);
  if (const int first_code = first_code_byte(w.dtype); first_code > 0) {
    std::vector<std::byte> zeroed = matrix.bytes;
    const int step = kv::info(w.dtype).block_bytes;
    for (std::size_t i = 0; i < zeroed.size(); ++i)
      if (static_cast<int>(i % step) >= first_code) zeroed[i] = std::byte{0};
    kv::WeightMatrix only_offsets = w;
    only_offsets.data = zeroed.data();
    offsets = widened(only_offsets);
  }

  // Gaps between the rows and around the matrices are NaN: they must not be read or written.
  const std::int64_t x_stride = w.num_cols + 3, out_stride = w.num_rows + 5;
  std::normal_distribution<float> normal;
  std::vector<float> x(num_x * x_stride, kNan), out((num_x + 2) * out_stride, kNan);
  for (std::int64_t r = 0; r < num_x; ++r)
    for (std::int64_t i = 0; i < w.num_cols; ++i) x[r * x_stride + i] = normal(random);
  x.resize(x.size() - 3);  // nothing may be read behind the last row
  const kv::Product product{&w, out.data() + out_stride, out_stride};
  kv::multiply({&product, 1}, x.data(), x_stride, num_x);

  const double n = std::max<double>(w.num_cols / 4, std::min<std::int64_t>(w.num_cols, 352)) +
                   w.num_cols / 64 + 24;
  for (std::int64_t r = -1; r <= num_x; ++r) {
    for (std::int64_t o = 0; o < out_stride; ++o) {
      const float actual = out[(r + 1) * out_stride + o];
      if (r < 0 || r == num_x || o >= w.num_rows) {
        if (!std::isnan(actual)) FAIL("wrote outside the result at row " << r << ", column " << o);
        continue;
      }
      double expected = 0.0, mass = 0.0;
      for (std::int64_t i = 0; i < w.num_cols; ++i) {
        const double value = values[o * w.num_cols + i], offset = offsets[o * w.num_cols + i];
        expected += value * x[r * x_stride + i];
        mass += (std::fabs(value - offset) + std::fabs(offset)) * std::fabs(x[r * x_stride + i]);
      }
      if (!(std::fabs(actual - expected) <= n * 0x1p-24 * mass))
        FAIL("row " << r << ", output " << o << ": actual " << actual << ", expected " << expected
                    << ", allowed " << n * 0x1p-24 * mass);
    }
  }
}

}  // namespace

TEST_CASE("multiply: every format, shape and number of rows agrees with sums in double",
          "[matmul]") {
  std::mt19937 random(7);
  for (const DType dtype : kFormats) {
    const int block = kv::info(dtype).block_elements;
    const std::vector<std::int64_t> cols =
        block == 1    ? std::vector<std::int64_t>{1, 3, 7, 8, 9, 15, 31, 33, 64, 100, 321, 576}
        : block == 32 ? std::vector<std::int64_t>{32, 64, 96, 320, 352, 576, 1536}
                      : std::vector<std::int64_t>{256, 512, 1536};
    for (const std::int64_t num_cols : cols) {
      for (const std::int64_t num_rows : {1, 2, 15, 16, 17, 31, 33, 70}) {
        const RandomMatrix w(dtype, num_rows, num_cols, random);
        for (const std::int64_t num_x : {1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 13, 16, 17, 100}) {
          // Large products only for some shapes, to stay within seconds.
          if (num_x > 17 && num_rows * num_cols > 20000) continue;
          INFO(kv::info(dtype).name << " [" << num_rows << ", " << num_cols << "], " << num_x
                                    << " rows of x");
          check_product(w, num_x, random);
        }
      }
    }
  }
}

TEST_CASE("multiply: a one-hot row picks one element exactly", "[matmul]") {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::q8_0}) {
    constexpr std::int64_t kSize = 64;
    const auto row_bytes = kv::WeightMatrix{dtype, kSize, kSize, nullptr}.row_bytes();
    std::vector<std::byte> bytes(kSize * row_bytes);
    for (std::int64_t r = 0; r < kSize; ++r) {
      std::byte* row = bytes.data() + r * row_bytes;
      const std::int64_t picked = kSize - 1 - r;  // the anti-diagonal
      const auto put = [](std::byte* to, auto value) { std::memcpy(to, &value, sizeof value); };
      if (dtype == DType::f32) put(row + 4 * picked, 1.0f);
      if (dtype == DType::f16) put(row + 2 * picked, kv::to_f16(1.0f));
      if (dtype == DType::bf16) put(row + 2 * picked, kv::to_bf16(1.0f));
      if (dtype == DType::q8_0) {
        for (int b = 0; b < 2; ++b) put(row + 34 * b, kv::to_f16(0.5f));
        put(row + 34 * (picked / 32) + 2 + picked % 32, std::int8_t{2});
      }
    }
    const kv::WeightMatrix w{dtype, kSize, kSize, bytes.data()};
    for (const std::int64_t num_x : {1, 2, 20}) {
      std::vector<float> x(num_x * kSize), out(num_x * kSize, kNan);
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = 0.37f * static_cast<float>(i) - 11.0f;
      const kv::Product product{&w, out.data(), kSize};
      kv::multiply({&product, 1}, x.data(), kSize, num_x);
      for (std::int64_t r = 0; r < num_x; ++r)
        for (std::int64_t o = 0; o < kSize; ++o)
          REQUIRE(out[r * kSize + o] == x[r * kSize + kSize - 1 - o]);
    }
  }
}

TEST_CASE("multiply: a group of products gives what each gives alone, with any number of threads",
          "[matmul]") {
  std::mt19937 random(11);
  const RandomMatrix a(DType::q4_k, 40, 256, random), b(DType::f32, 3, 256, random),
      c(DType::q4_1, 65, 256, random);
  const int before = kv::num_threads();
  for (const std::int64_t num_x : {1, 3, 30}) {
    std::vector<float> x(num_x * 256);
    std::normal_distribution<float> normal;
    for (float& value : x) value = normal(random);
    std::vector<std::vector<float>> alone;
    for (const RandomMatrix* w : {&a, &b, &c}) {
      alone.emplace_back(num_x * w->view.num_rows, kNan);
      const kv::Product product{&w->view, alone.back().data(), w->view.num_rows};
      kv::multiply({&product, 1}, x.data(), 256, num_x);
    }
    for (const int threads : {1, 2, 3, 7}) {
      kv::set_num_threads(threads);
      std::vector<std::vector<float>> out = alone;
      for (std::vector<float>& values : out) std::fill(values.begin(), values.end(), kNan);
      const kv::Product products[] = {
          {&a.view, out[0].data(), 40}, {&b.view, out[1].data(), 3}, {&c.view, out[2].data(), 65}};
      kv::multiply(products, x.data(), 256, num_x);
      REQUIRE(out == alone);  // exactly: who computes an element does not matter
    }
  }
  kv::set_num_threads(before);
}

TEST_CASE("multiply: one row's result does not depend on the other rows' contents", "[matmul]") {
  std::mt19937 random(13);
  const RandomMatrix w(DType::f32, 33, 100, random);
  for (const std::int64_t num_x : {2, 4, 8, 9, 25}) {
    std::vector<float> x(num_x * 100), first(num_x * 33), second(num_x * 33);
    std::normal_distribution<float> normal;
    for (float& value : x) value = normal(random);
    const kv::Product one{&w.view, first.data(), 33}, two{&w.view, second.data(), 33};
    kv::multiply({&one, 1}, x.data(), 100, num_x);
    std::fill_n(x.begin() + 100 * (num_x - 1), 100, kNan);  // the last row goes bad
    kv::multiply({&two, 1}, x.data(), 100, num_x);
    first.resize(33 * (num_x - 1));
    second.resize(33 * (num_x - 1));
    REQUIRE(first == second);
  }
}

TEST_CASE("multiply: nothing to do is fine, mismatched weights are refused", "[matmul]") {
  std::mt19937 random(17);
  const RandomMatrix a(DType::f32, 4, 32, random), b(DType::f32, 4, 64, random);
  std::vector<float> x(64), out(8, kNan);
  const kv::Product products[] = {{&a.view, out.data(), 4}, {&b.view, out.data() + 4, 4}};
  kv::multiply({}, x.data(), 64, 1);
  kv::multiply({products, 1}, x.data(), 64, 0);
  for (const float value : out) REQUIRE(std::isnan(value));
  REQUIRE_THROWS_AS(kv::multiply(products, x.data(), 64, 1), std::invalid_argument);
  REQUIRE_THROWS_AS(kv::multiply({products, 1}, x.data(), 64, -1), std::invalid_argument);
}
