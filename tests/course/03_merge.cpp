// Exercise 03_merge: merge_factors().
#include <algorithm>
#include <cmath>
#include <vector>

#include "course/support.hpp"
#include "kv/attention/online_softmax.hpp"

namespace {

constexpr float kInf = INFINITY;

// Attention of one row with one-element values, over some of its keys, in double.
struct Part {
  double out = 0, lse = 0;
};
Part part(std::span<const float> scores, std::span<const float> values) {
  const double m = *std::ranges::max_element(scores);
  double l = 0, acc = 0;
  for (std::size_t j = 0; j < scores.size(); ++j) {
    l += std::exp(scores[j] - m);
    acc += std::exp(scores[j] - m) * values[j];
  }
  return {acc / l, m + std::log(l)};
}

// Keys in two parts of different sizes, with scores around `center`: merged, they are the whole.
void expect_whole(std::mt19937_64& random, float center) {
  const std::int64_t num_keys = kv_course::pick(random, 9, 15);
  std::vector<float> scores = kv_course::random_floats(random, num_keys);
  for (float& s : scores) s = center + 3 * s;
  const std::vector<float> values = kv_course::random_floats(random, num_keys);
  const auto cut = static_cast<std::size_t>(kv_course::pick(random, 1, 3));
  const Part a = part(std::span(scores).first(cut), std::span(values).first(cut));
  const Part b = part(std::span(scores).subspan(cut), std::span(values).subspan(cut));
  const Part whole = part(scores, values);
  const kv::MergeFactors got =
      kv::merge_factors(static_cast<float>(a.lse), static_cast<float>(b.lse));
  const double atol = 1e-5 + 1e-6 * std::fabs(center);  // float has 7 digits
  kv_course::expect_close("out, lse of " + std::to_string(num_keys) + " keys", {2},
                          std::vector<double>{got.a * a.out + got.b * b.out, got.lse},
                          std::vector<double>{whole.out, whole.lse}, atol);
}

}  // namespace

TEST_CASE("two parts make up the whole") {
  auto random = kv_course::random_numbers(1);
  for (int i = 0; i < 4; ++i) expect_whole(random, 0);
}

TEST_CASE("an empty part is neutral") {
  auto random = kv_course::random_numbers(2);
  const float lse = kv_course::random_floats(random, 1)[0];
  const kv::MergeFactors left = kv::merge_factors(-kInf, lse);
  CHECK(left.a == 0.0f);
  CHECK(left.b == 1.0f);
  CHECK(left.lse == lse);
  const kv::MergeFactors right = kv::merge_factors(lse, -kInf);
  CHECK(right.a == 1.0f);
  CHECK(right.b == 0.0f);
  CHECK(right.lse == lse);
}

TEST_CASE("two empty parts are an empty one") {
  auto random = kv_course::random_numbers(3);
  const kv::MergeFactors none = kv::merge_factors(-kInf, -kInf);
  CHECK(none.a == 0.0f);
  CHECK(none.b == 0.0f);
  CHECK(none.lse == -kInf);
  // And once more with a part that has keys.
  const float lse = kv_course::random_floats(random, 1)[0];
  CHECK(kv::merge_factors(none.lse, lse).b == 1.0f);
}

TEST_CASE("log-sum-exps of any size are merged: near -500 and near 500") {
  auto random = kv_course::random_numbers(4);
  expect_whole(random, -500);
  expect_whole(random, 500);
}
