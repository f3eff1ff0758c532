// Exercise 04_mean_pool: pooled_row().
#include <cstddef>
#include <cstring>

#include "course/support.hpp"
#include "kv/model/pool_heads.hpp"

namespace {

// A projection whose shape comes from the seed. `values` is what its rows hold once widened.
struct Projection {
  explicit Projection(std::uint64_t salt) : random(kv_course::random_numbers(salt)) {
    values = kv_course::random_floats(random, num_new * num_pooled * head_dim * kColumns);
  }

  static constexpr std::int64_t kColumns = 64;
  std::mt19937_64 random;
  std::int64_t head_dim = kv_course::pick(random, 2, 6);
  std::int64_t num_pooled = kv_course::pick(random, 2, 4);
  std::int64_t num_new = num_pooled + kv_course::pick(random, 1, 3);
  std::vector<float> values;     // [num_new * num_pooled * head_dim, kColumns]
  std::vector<std::byte> bytes;  // the same as stored

  float& at(std::int64_t head, std::int64_t d, std::int64_t c) {
    return values[static_cast<std::size_t>((head * head_dim + d) * kColumns + c)];
  }
  // Stores the values; `to_stored` makes one number of the format of each.
  template <typename ToStored>
  void store(ToStored to_stored) {
    using Number = decltype(to_stored(0.0f));
    bytes.resize(values.size() * sizeof(Number));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const Number number = to_stored(values[i]);
      std::memcpy(bytes.data() + i * sizeof(Number), &number, sizeof(Number));
    }
  }
  // Compares all rows of all new heads with the means of `values`.
  void check(kv::DType dtype) {
    const kv::WeightMatrix w{dtype, num_new * num_pooled * head_dim, kColumns, bytes.data()};
    for (std::int64_t g = 0; g < num_new; ++g)
      for (std::int64_t d = 0; d < head_dim; ++d) {
        std::vector<double> expected;
        for (std::int64_t c = 0; c < kColumns; ++c) {
          double sum = 0.0;
          for (std::int64_t i = 0; i < num_pooled; ++i) sum += at(g * num_pooled + i, d, c);
          expected.push_back(sum / static_cast<double>(num_pooled));
        }
        const std::vector<double> row =
            kv::pooled_row(w, static_cast<int>(head_dim), static_cast<int>(num_pooled),
                           static_cast<int>(g), static_cast<int>(d));
        kv_course::expect_close("element " + std::to_string(d) + " of new head " +
                                    std::to_string(g) + " (" + std::to_string(num_pooled) +
                                    " heads to one, head_dim " + std::to_string(head_dim) + ")",
                                {kColumns}, row, expected, 1e-12);
      }
  }
};

float unchanged(float x) { return x; }

}  // namespace

TEST_CASE("a row is the mean of one row of each head") {
  Projection p(1);
  p.store(unchanged);
  p.check(kv::DType::f32);
}

TEST_CASE("the heads that are pooled are neighbours") {
  Projection p(2);
  // Heads that become one are alike: the new head is any of them.
  for (std::int64_t g = 0; g < p.num_new; ++g)
    for (std::int64_t i = 1; i < p.num_pooled; ++i)
      for (std::int64_t d = 0; d < p.head_dim; ++d)
        for (std::int64_t c = 0; c < Projection::kColumns; ++c)
          p.at(g * p.num_pooled + i, d, c) = p.at(g * p.num_pooled, d, c);
  p.store(unchanged);
  p.check(kv::DType::f32);
}

TEST_CASE("rows of any format are pooled") {
  Projection p(3);
  SECTION("bf16") {
    for (float& value : p.values) value = kv::to_float(kv::to_bf16(value));
    p.store(kv::to_bf16);
    p.check(kv::DType::bf16);
  }
  SECTION("Q8_0") {  // blocks of a 16-bit scale, here 1/64, and 32 whole numbers
    constexpr std::size_t kBlock = 32;
    for (std::size_t i = 0; i < p.values.size(); ++i) {
      if (i % kBlock == 0) {
        const kv::f16 scale = kv::to_f16(1.0f / 64);
        const auto* parts = reinterpret_cast<const std::byte*>(&scale);
        p.bytes.insert(p.bytes.end(), parts, parts + sizeof(scale));
      }
      const auto whole = static_cast<std::int8_t>(kv_course::pick(p.random, -127, 127));
      p.bytes.push_back(static_cast<std::byte>(whole));
      p.values[i] = static_cast<float>(whole) / 64;
    }
    p.check(kv::DType::q8_0);
  }
}

TEST_CASE("the sum is kept in double") {
  Projection p(4);
  // The first head of each group is so large that a float would lose all the others.
  for (std::int64_t g = 0; g < p.num_new; ++g)
    for (std::int64_t d = 0; d < p.head_dim; ++d)
      for (std::int64_t c = 0; c < Projection::kColumns; ++c) {
        p.at(g * p.num_pooled, d, c) = std::ldexp(1.0f, static_cast<int>(25 + (c + d) % 4));
        for (std::int64_t i = 1; i < p.num_pooled; ++i)
          p.at(g * p.num_pooled + i, d, c) =
              static_cast<float>(kv_course::pick(p.random, 1, 9)) / 16;
      }
  p.store(unchanged);
  p.check(kv::DType::f32);
}
