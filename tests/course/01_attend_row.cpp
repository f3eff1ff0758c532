// Exercise 01_attend_row: attend_row().
#include <limits>

#include "course/support.hpp"
#include "kv/attention/reference.hpp"

namespace {

constexpr double kAtol = 1e-9;  // of sums in double; floats would be off by more
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// A query, and rows of K and V `gap` elements further apart than they are long; the gaps are NaN.
struct Problem {
  Problem(std::uint64_t salt, std::int64_t gap) : random(kv_course::random_numbers(salt)) {
    q = kv_course::random_floats(random, head_dim);
    stride = head_dim + gap;
    for (std::vector<float>* rows : {&k, &v}) {
      rows->assign(static_cast<std::size_t>(num_keys * stride), kNan);
      for (std::int64_t j = 0; j < num_keys; ++j)
        for (std::int64_t d = 0; d < head_dim; ++d)
          at(*rows, j, d) = kv_course::random_floats(random, 1)[0];
    }
  }

  float& at(std::vector<float>& rows, std::int64_t j, std::int64_t d) {
    return rows[static_cast<std::size_t>(j * stride + d)];
  }

  // Runs the exercise; what was in `out` before must not matter.
  double attend() {
    out.assign(static_cast<std::size_t>(head_dim), std::numeric_limits<double>::quiet_NaN());
    return kv::attend_row(q, {k.data(), v.data(), num_keys, stride}, scale, out);
  }

  // The textbook's formula, with these scores.
  void expect_mean_by(const std::vector<double>& scores) {
    std::vector<double> expected(static_cast<std::size_t>(head_dim), 0.0);
    double sum = 0;
    for (const double score : scores) sum += std::exp(score);
    for (std::int64_t j = 0; j < num_keys; ++j)
      for (std::int64_t d = 0; d < head_dim; ++d)
        expected[static_cast<std::size_t>(d)] +=
            std::exp(scores[static_cast<std::size_t>(j)]) / sum * double{at(v, j, d)};
    kv_course::expect_close("out", {head_dim}, out, expected, kAtol);
  }

  std::vector<double> scores() {
    std::vector<double> s(static_cast<std::size_t>(num_keys), 0.0);
    for (std::int64_t j = 0; j < num_keys; ++j)
      for (std::int64_t d = 0; d < head_dim; ++d)
        s[static_cast<std::size_t>(j)] +=
            scale * double{q[static_cast<std::size_t>(d)]} * double{at(k, j, d)};
    return s;
  }

  std::mt19937_64 random;
  std::int64_t head_dim = kv_course::pick(random, 3, 20);
  std::int64_t num_keys = kv_course::pick(random, 5, 30);
  double scale = static_cast<double>(kv_course::pick(random, 20, 40)) / 16;
  std::int64_t stride = 0;
  std::vector<float> q, k, v;
  std::vector<double> out;
};

}  // namespace

TEST_CASE("equal keys give the mean of the values") {
  Problem p(1, 0);
  for (std::int64_t j = 1; j < p.num_keys; ++j)
    for (std::int64_t d = 0; d < p.head_dim; ++d) p.at(p.k, j, d) = p.at(p.k, 0, d);
  p.attend();
  p.expect_mean_by(std::vector<double>(static_cast<std::size_t>(p.num_keys), 0.0));
}

TEST_CASE("weights follow the scaled scores") {
  Problem p(2, 0);
  p.attend();
  p.expect_mean_by(p.scores());
}

TEST_CASE("huge scores neither overflow nor vanish") {
  Problem p(3, 0);
  p.scale = 1;
  std::fill(p.q.begin(), p.q.end(), 0.0f);
  p.q[0] = 1;  // the score of a key is its first element
  const double huge = static_cast<double>(kv_course::pick(p.random, 20000, 60000));
  for (const double offset : {huge, -huge}) {
    std::vector<double> differences;
    for (std::int64_t j = 0; j < p.num_keys; ++j) {
      differences.push_back(static_cast<double>(kv_course::pick(p.random, 0, 32)) / 16);
      p.at(p.k, j, 0) = static_cast<float>(offset + differences.back());  // exact
    }
    INFO("scores near " << offset);
    p.attend();
    p.expect_mean_by(differences);
  }
}

TEST_CASE("the logarithm of the sum of exponentials is returned") {
  Problem p(4, 0);
  double sum = 0;
  for (const double score : p.scores()) sum += std::exp(score);
  const double got = p.attend();
  kv_course::expect_close("log-sum-exp", {1}, std::vector<double>{got},
                          std::vector<double>{std::log(sum)}, kAtol);
}

TEST_CASE("rows are row_stride apart") {
  Problem p(5, 7);
  p.attend();
  p.expect_mean_by(p.scores());
}
