// Exercise 03_push: OnlineSoftmax::push().
#include <algorithm>
#include <cmath>
#include <vector>

#include "course/support.hpp"
#include "kv/attention/online_softmax.hpp"

namespace {

constexpr float kInf = INFINITY;

// Scores in no order, between -8 and 8 around `center`; the first is not the largest.
std::vector<float> random_scores(std::mt19937_64& random, float center) {
  std::vector<float> scores = kv_course::random_floats(random, kv_course::pick(random, 10, 20));
  for (float& s : scores) s = center + 8 * s;
  std::swap(scores[4], *std::ranges::max_element(scores));
  return scores;
}

// m and l of a state against all of its scores at once.
void expect_state(const kv::OnlineSoftmax& state, const std::vector<float>& scores) {
  const float m = *std::ranges::max_element(scores);
  double l = 0;
  for (const float s : scores) l += std::exp(double{s} - double{m});
  CHECK(state.m == m);
  kv_course::expect_close("l after " + std::to_string(scores.size()) + " scores", {1},
                          std::vector<float>{state.l}, std::vector<double>{l}, 1e-5 * l);
}

}  // namespace

TEST_CASE("m is the largest score, l the sum relative to it") {
  auto random = kv_course::random_numbers(1);
  kv::OnlineSoftmax state;
  std::vector<float> pushed;
  for (const float s : random_scores(random, 0)) {
    state.push(s);
    pushed.push_back(s);
    expect_state(state, pushed);
  }
}

TEST_CASE("the result rescales what was accumulated before") {
  auto random = kv_course::random_numbers(2);
  const std::vector<float> scores = random_scores(random, 0);
  const std::vector<float> values =
      kv_course::random_floats(random, static_cast<std::int64_t>(scores.size()));
  kv::OnlineSoftmax state;
  double acc = 0, expected = 0;
  const float m = *std::ranges::max_element(scores);
  for (std::size_t j = 0; j < scores.size(); ++j) {
    const float rescale = state.push(scores[j]);
    acc = acc * rescale + std::exp(double{scores[j]} - state.m) * values[j];
    expected += std::exp(double{scores[j]} - m) * values[j];
  }
  kv_course::expect_close("sum of exp(s_j - m) v_j", {1}, std::vector<double>{acc},
                          std::vector<double>{expected}, 1e-5);
}

TEST_CASE("a masked score changes nothing") {
  auto random = kv_course::random_numbers(3);
  kv::OnlineSoftmax state;
  CHECK(state.push(-kInf) == 1.0f);
  CHECK(state.m == -kInf);
  CHECK(state.l == 0.0f);
  std::vector<float> pushed;
  for (const float s : random_scores(random, 0)) {
    state.push(s);
    CHECK(state.push(-kInf) == 1.0f);
    pushed.push_back(s);
    expect_state(state, pushed);
  }
}

TEST_CASE("scores of any size are summed: near -1000 and near 1000") {
  auto random = kv_course::random_numbers(4);
  for (const float center : {-1000.0f, 1000.0f}) {
    kv::OnlineSoftmax state;
    const std::vector<float> scores = random_scores(random, center);
    for (const float s : scores) state.push(s);
    expect_state(state, scores);
  }
}
