// What the tests of exercises share: numbers from the course's seed, and comparisons that say what
// was expected where.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <catch2/catch_tostring.hpp>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace kv_course {

/// The seed of this course: an instructor gives each class another one. KV_COURSE_SEED, else 1.
inline std::uint64_t seed() {
  const char* text = std::getenv("KV_COURSE_SEED");
  return text == nullptr ? 1 : std::strtoull(text, nullptr, 10);
}

/// Random numbers of one test case; the same for the same seed and `salt`.
inline std::mt19937_64 random_numbers(std::uint64_t salt) {
  return std::mt19937_64(seed() * 1000003 + salt);
}

/// A whole number from `least` to `most`. Written out: distributions differ between libraries.
inline std::int64_t pick(std::mt19937_64& random, std::int64_t least, std::int64_t most) {
  return least + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most - least + 1));
}

/// `count` numbers in [-1, 1).
inline std::vector<float> random_floats(std::mt19937_64& random, std::int64_t count) {
  std::vector<float> x(static_cast<std::size_t>(count));
  for (float& value : x) value = static_cast<float>(random() >> 40) / 8388608.0f - 1.0f;
  return x;
}

/// "[2, 3, 64]"
inline std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (const std::int64_t size : shape)
    text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

/// The place of element `i` of a row-major array.
inline std::vector<std::int64_t> index_of(std::int64_t i, std::span<const std::int64_t> shape) {
  std::vector<std::int64_t> index(shape.size());
  for (std::size_t axis = shape.size(); axis-- > 0; i /= shape[axis]) index[axis] = i % shape[axis];
  return index;
}

/// Every element equal, or within `atol`; a NaN fails. Says the first that is not, and how many.
/// \param name  of the array, as the exercise calls it
/// \param shape outermost first; its product is the size of both
template <typename Got, typename Expected>
void expect_close(const std::string& name, const std::vector<std::int64_t>& shape,
                  std::span<Got> got, std::span<Expected> expected, double atol = 0) {
  std::int64_t size = 1;
  for (const std::int64_t axis : shape) size *= axis;
  INFO(name << " " << shape_text(shape));
  REQUIRE(static_cast<std::int64_t>(got.size()) == size);
  REQUIRE(static_cast<std::int64_t>(expected.size()) == size);
  std::int64_t num_wrong = 0, first = -1;
  for (std::int64_t i = 0; i < size; ++i) {
    const auto g = got[static_cast<std::size_t>(i)];
    const auto e = expected[static_cast<std::size_t>(i)];
    if (g == e || std::fabs(static_cast<double>(g) - static_cast<double>(e)) <= atol) continue;
    if (num_wrong++ == 0) first = i;
  }
  if (num_wrong == 0) {
    SUCCEED();
    return;
  }
  const auto at = static_cast<std::size_t>(first);
  FAIL_CHECK("at index " << shape_text(index_of(first, shape)) << ": expected "
                         << Catch::Detail::stringify(expected[at]) << ", got "
                         << Catch::Detail::stringify(got[at]) << " (" << num_wrong << " of " << size
                         << " elements are wrong)");
}

/// The same for vectors.
template <typename Got, typename Expected>
void expect_close(const std::string& name, const std::vector<std::int64_t>& shape,
                  const std::vector<Got>& got, const std::vector<Expected>& expected,
                  double atol = 0) {
  expect_close(name, shape, std::span<const Got>(got), std::span<const Expected>(expected), atol);
}

}  // namespace kv_course
