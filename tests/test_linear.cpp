#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "kv/fast/linear.hpp"
#include "kv/fast/thread_team.hpp"
#include "kv/math.hpp"
#include "kv/model/dequantize.hpp"
#include "support/random_model.hpp"

namespace {

using kv::DType;
using kv::RowMajor;
using DoubleMatrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr DType kFormats[] = {DType::f32,  DType::f16,  DType::bf16, DType::q8_0, DType::q4_0,
                              DType::q4_1, DType::q5_0, DType::q5_1, DType::q4_k, DType::q6_k};

const kv::Math* const kBoth[] = {&kv::plain_math(), &kv::fast_math()};

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

RowMajor widened(const kv::WeightMatrix& w) {
  RowMajor values(w.num_rows, w.num_cols);
  for (std::int64_t r = 0; r < w.num_rows; ++r)
    kv::dequantize_row(w, r, {values.row(r).data(), static_cast<std::size_t>(w.num_cols)});
  return values;
}

RowMajor random_rows(std::int64_t num_rows, std::int64_t num_cols, std::mt19937& random) {
  std::normal_distribution<float> normal;
  RowMajor x(num_rows, num_cols);
  for (float& value : x.reshaped()) value = normal(random);
  return x;
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
    values = widened(view);
    view.floats = values.data();
  }
  RandomMatrix(const RandomMatrix&) = delete;  // view points into it
  kv::WeightMatrix view;
  std::vector<std::byte> bytes;
  RowMajor values;  // the same numbers as floats
};

RowMajor multiply(const kv::Math& math, const kv::WeightMatrix& w, const RowMajor& x) {
  RowMajor y = RowMajor::Constant(x.rows(), w.num_rows, kNan);
  const kv::Product product{&w, &y};
  math.linear({&product, 1}, x);
  return y;
}

// Every product against sums in double.
//
// A sum of terms t_i in floats is off by at most n u sum |t_i| to first order, where u = 2^-24 and
// n is the most roundings any term goes through (Higham 2002, section 4.2). Whatever the order of
// the sum, a term meets each of the other terms, or sums of them, at most once: num_cols - 1
// additions. Eigen comes close to that, since a register adds up the terms of an element one after
// the other. To these come the product and, for quantised weights, the roundings of the factor, of
// the offset and of what they are multiplied with: not more than 8 in all. In formats with an
// offset the terms are scale * q * x and offset * x, which may cancel.
void check_product(const kv::Math& math, const RandomMatrix& matrix, const RowMajor& x) {
  const kv::WeightMatrix& w = matrix.view;
  RowMajor offsets = RowMajor::Zero(w.num_rows, w.num_cols);
  if (const int first_code = first_code_byte(w.dtype); first_code > 0) {
    std::vector<std::byte> zeroed = matrix.bytes;
    const int step = kv::info(w.dtype).block_bytes;
    for (std::size_t i = 0; i < zeroed.size(); ++i)
      if (static_cast<int>(i % step) >= first_code) zeroed[i] = std::byte{0};
    kv::WeightMatrix only_offsets = w;
    only_offsets.data = zeroed.data();
    offsets = widened(only_offsets);
  }
  const DoubleMatrix values = matrix.values.cast<double>(), x_values = x.cast<double>();
  const DoubleMatrix sizes = (values - offsets.cast<double>()).cwiseAbs() +
                             offsets.cast<double>().cwiseAbs();  // of the terms without x
  const DoubleMatrix expected = x_values * values.transpose();
  const DoubleMatrix mass = x_values.cwiseAbs() * sizes.transpose();

  const RowMajor actual = multiply(math, w, x);
  const double n = static_cast<double>(w.num_cols) + 8;
  for (std::int64_t r = 0; r < x.rows(); ++r)
    for (std::int64_t o = 0; o < w.num_rows; ++o)
      if (!(std::fabs(actual(r, o) - expected(r, o)) <= n * 0x1p-24 * mass(r, o)))
        FAIL("row " << r << ", output " << o << ": actual " << actual(r, o) << ", expected "
                    << expected(r, o) << ", allowed " << n * 0x1p-24 * mass(r, o));
}

struct Threads {
  explicit Threads(int count) { kv::set_num_threads(count); }
  ~Threads() { kv::set_num_threads(before); }
  int before = kv::num_threads();
};

}  // namespace

TEST_CASE("linear: every format, shape and number of rows agrees with sums in double", "[linear]") {
  std::vector<std::int64_t> row_counts;
  for (std::int64_t num_x = 1; num_x <= 20; ++num_x) row_counts.push_back(num_x);
  for (const std::int64_t num_x : {31, 32, 33, 48, 49, 100}) row_counts.push_back(num_x);
  std::mt19937 random(7);
  for (const DType dtype : kFormats) {
    const int block = kv::info(dtype).block_elements;
    const std::vector<std::int64_t> cols =
        block == 1    ? std::vector<std::int64_t>{1, 3, 7, 8, 9, 15, 31, 33, 64, 100, 321, 576}
        : block == 32 ? std::vector<std::int64_t>{32, 64, 96, 320, 352, 576, 1536}
                      : std::vector<std::int64_t>{256, 512, 1536};
    for (const std::int64_t num_cols : cols) {
      for (const std::int64_t num_rows : {1, 2, 15, 16, 17, 31, 33, 70, 200}) {
        const RandomMatrix w(dtype, num_rows, num_cols, random);
        for (const std::int64_t num_x : row_counts) {
          // Large products only for some shapes, to stay within seconds.
          if (num_x > 20 && num_rows * num_cols > 20000) continue;
          const RowMajor x = random_rows(num_x, num_cols, random);
          for (const kv::Math* math : kBoth) {
            INFO(math->name << ": " << kv::info(dtype).name << " [" << num_rows << ", " << num_cols
                            << "], " << num_x << " rows of x");
            check_product(*math, w, x);
          }
        }
      }
    }
  }
}

TEST_CASE("linear: a one-hot row picks one element exactly", "[linear]") {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::q8_0}) {
    constexpr std::int64_t kSize = 64;
    const auto row_bytes = kv::WeightMatrix{dtype, kSize, kSize}.row_bytes();
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
    kv::WeightMatrix w{dtype, kSize, kSize, bytes.data()};
    const RowMajor values = widened(w);
    w.floats = values.data();
    for (const std::int64_t num_x : {1, 2, 20, 60}) {
      RowMajor x(num_x, kSize);
      for (std::int64_t i = 0; i < x.size(); ++i)
        x(i / kSize, i % kSize) = 0.37f * static_cast<float>(i) - 11.0f;
      for (const kv::Math* math : kBoth) REQUIRE(multiply(*math, w, x) == x.rowwise().reverse());
    }
  }
}

// Small integers: every sum is exact, so every order gives the same bits.
TEST_CASE("linear: a group of products gives what each gives alone, with any number of threads",
          "[linear]") {
  std::mt19937 random(11);
  const auto integers = [&](std::int64_t num_rows) {
    RowMajor m(num_rows, 256);
    for (float& value : m.reshaped()) value = static_cast<float>(random() % 33) - 16.0f;
    return m;
  };
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    const RowMajor values[] = {integers(40), integers(3), integers(205)};
    std::vector<std::byte> bytes[3];
    std::vector<kv::WeightMatrix> w;
    for (int i = 0; i < 3; ++i) {
      w.push_back({dtype, values[i].rows(), 256, nullptr, values[i].data()});
      bytes[i].resize(w[i].bytes());
      kv_test::quantize(dtype, {values[i].data(), static_cast<std::size_t>(values[i].size())},
                        bytes[i].data());
      w[i].data = bytes[i].data();
    }
    for (const std::int64_t num_x : {1, 3, 30, 48, 49, 100}) {
      const RowMajor x = integers(num_x);
      for (const kv::Math* math : kBoth) {
        for (const int count : {1, 2, 3, 7}) {
          INFO(math->name << ": " << num_x << " rows of x, " << count << " threads");
          const Threads threads(count);
          RowMajor y[3];
          std::vector<kv::Product> products;
          for (int i = 0; i < 3; ++i) {
            y[i].setConstant(num_x, w[i].num_rows, kNan);
            products.push_back({&w[i], &y[i]});
          }
          math->linear(products, x);
          for (int i = 0; i < 3; ++i) {
            REQUIRE((y[i] == x * values[i].transpose()));
            REQUIRE((y[i] == multiply(*math, w[i], x)));
          }
        }
      }
    }
  }
}

TEST_CASE("linear: the same call gives the same bits; few rows do so with any number of threads",
          "[linear]") {
  std::mt19937 random(12);
  for (const DType dtype : kFormats) {
    const RandomMatrix w(dtype, 205, 256, random);
    for (const std::int64_t num_x : {1, 3, 30, 48, 100}) {
      const RowMajor x = random_rows(num_x, 256, random);
      const RowMajor fast = multiply(kv::fast_math(), w.view, x);
      for (const int count : {1, 2, 3, 7}) {
        INFO(kv::info(dtype).name << ": " << num_x << " rows of x, " << count << " threads");
        const Threads threads(count);
        for (const kv::Math* math : kBoth)
          REQUIRE((multiply(*math, w.view, x) == multiply(*math, w.view, x)));
        // Many rows: Eigen's order of a sum depends on where a thread's part begins.
        if (num_x <= 48) REQUIRE((multiply(kv::fast_math(), w.view, x) == fast));
      }
    }
  }
}

TEST_CASE("linear: one row's result does not depend on the other rows' contents", "[linear]") {
  std::mt19937 random(13);
  const RandomMatrix w(DType::f32, 33, 100, random);
  for (const kv::Math* math : kBoth) {
    for (const std::int64_t num_x : {2, 4, 8, 9, 25, 60}) {
      RowMajor x = random_rows(num_x, 100, random);
      const RowMajor first = multiply(*math, w.view, x);
      x.row(num_x - 1).setConstant(kNan);  // the last row goes bad
      const RowMajor second = multiply(*math, w.view, x);
      REQUIRE(first.topRows(num_x - 1) == second.topRows(num_x - 1));
      REQUIRE(second.row(num_x - 1).array().isNaN().all());
    }
  }
}

TEST_CASE("linear: nothing to do is fine, shapes that do not fit are refused", "[linear]") {
  std::mt19937 random(17);
  const RandomMatrix a(DType::f32, 4, 32, random), b(DType::f32, 4, 64, random);
  const RowMajor x = random_rows(2, 32, random);
  for (const kv::Math* math : kBoth) {
    RowMajor y = RowMajor::Constant(2, 4, kNan), wide(2, 5), tall(3, 4), none(0, 4);
    const auto run = [&](const RandomMatrix& w, RowMajor& to, const RowMajor& from) {
      const kv::Product product{&w.view, &to};
      math->linear({&product, 1}, from);
    };
    math->linear({}, x);
    run(a, none, RowMajor(0, 32));
    CHECK_THROWS_AS(run(b, y, x), std::invalid_argument);
    CHECK_THROWS_AS(run(a, wide, x), std::invalid_argument);
    CHECK_THROWS_AS(run(a, tall, x), std::invalid_argument);
    const kv::Product products[] = {{&a.view, &y}, {&b.view, &y}};
    CHECK_THROWS_AS(math->linear(products, x), std::invalid_argument);
    CHECK(y.array().isNaN().all());  // also of a group of which a part fits
  }
}

TEST_CASE("linear: the plain path wants weights that were widened, each once", "[linear]") {
  for (const DType dtype : {DType::f32, DType::f16, DType::q8_0}) {
    kv_test::RandomModelShape shape;
    shape.dtype = dtype;
    kv::Model model = kv_test::random_model(shape);
    const RowMajor x = RowMajor::Ones(1, model.config.d_model);
    CHECK_THROWS_AS(multiply(kv::plain_math(), model.output, x), std::invalid_argument);

    const std::size_t num_buffers = model.storage.size();
    kv::widen_weights(model);
    std::vector<const kv::WeightMatrix*> matrices = {&model.token_embedding};
    for (const kv::LayerWeights& l : model.layers)
      matrices.insert(matrices.end(), {&l.q, &l.k, &l.v, &l.o, &l.gate, &l.up, &l.down});
    for (const kv::WeightMatrix* w : matrices)
      REQUIRE(Eigen::Map<const RowMajor>(w->floats, w->num_rows, w->num_cols) == widened(*w));
    CHECK(model.output.floats == model.token_embedding.floats);  // tied
    const std::size_t num_widened = dtype == DType::f32 ? 0 : matrices.size();
    CHECK(model.storage.size() == num_buffers + num_widened);
    kv::widen_weights(model);
    CHECK(model.storage.size() == num_buffers + num_widened);
  }
}
