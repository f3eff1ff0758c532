// Exercise 01_attend_row: attend_row().
#include <algorithm>
#include <limits>

#include "course/support.hpp"
#include "kv/attention/plain.hpp"

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// A query, and rows of K and V `gap` elements further apart than they are long; the gaps are NaN.
struct Problem {
  Problem(std::uint64_t salt, std::int64_t gap) : random(kv_course::random_numbers(salt)) {
    q = random_row();
    for (kv::RowMajor* rows : {&k, &v}) {
      rows->setConstant(num_keys, head_dim + gap, kNan);
      for (std::int64_t j = 0; j < num_keys; ++j) rows->row(j).head(head_dim) = random_row();
    }
  }

  kv::RowVector random_row() {
    const std::vector<float> x = kv_course::random_floats(random, head_dim);
    return kv::RowView(x.data(), head_dim);
  }

  kv::HeadView head(const kv::RowMajor& rows) const {
    return {rows.data(), num_keys, head_dim, Eigen::OuterStride<>(rows.cols())};
  }

  // Runs the exercise; what was in `out` before must not matter.
  float attend() {
    out.setConstant(head_dim, kNan);
    return kv::attend_row(q, head(k), head(v), scale, out);
  }

  std::vector<double> scores() const {
    std::vector<double> s(static_cast<std::size_t>(num_keys), 0.0);
    for (std::int64_t j = 0; j < num_keys; ++j)
      for (std::int64_t d = 0; d < head_dim; ++d)
        s[static_cast<std::size_t>(j)] += double{scale} * double{q(d)} * double{k(j, d)};
    return s;
  }

  // How far floats may be off, with u = 2^-24 for each rounding, whatever the order of the sums. A
  // score is off by (head_dim + 1) u times its sum of |terms|; that, the subtraction of the maximum
  // and exp(), good to 2 units in the last place, make the relative error of a weight. It counts in
  // the sum of weighted values, which are below 1, and in the sum of the weights; each adds up
  // num_keys terms. The log-sum-exp is off by less.
  double atol() const {
    constexpr double u = 0x1p-24;
    double mass = 0;
    for (std::int64_t j = 0; j < num_keys; ++j) {
      double sum = 0;
      for (std::int64_t d = 0; d < head_dim; ++d) sum += std::fabs(double{q(d)} * double{k(j, d)});
      mass = std::max(mass, double{scale} * sum);
    }
    const double weight = static_cast<double>(head_dim + 1) * u * mass + 2 * mass * u + 4 * u;
    return 2 * weight + static_cast<double>(2 * num_keys + 2) * u;
  }

  // The textbook's formula, with these scores.
  void expect_mean_by(const std::vector<double>& scores, double bound) {
    std::vector<double> expected(static_cast<std::size_t>(head_dim), 0.0);
    double sum = 0;
    for (const double score : scores) sum += std::exp(score);
    for (std::int64_t j = 0; j < num_keys; ++j)
      for (std::int64_t d = 0; d < head_dim; ++d)
        expected[static_cast<std::size_t>(d)] +=
            std::exp(scores[static_cast<std::size_t>(j)]) / sum * double{v(j, d)};
    const std::vector<float> got(out.data(), out.data() + out.size());
    kv_course::expect_close("out", {head_dim}, got, expected, bound);
  }

  std::mt19937_64 random;
  std::int64_t head_dim = kv_course::pick(random, 3, 20);
  std::int64_t num_keys = kv_course::pick(random, 5, 30);
  float scale = static_cast<float>(kv_course::pick(random, 20, 40)) / 16;
  kv::RowVector q, out;
  kv::RowMajor k, v;
};

}  // namespace

TEST_CASE("equal keys give the mean of the values") {
  Problem p(1, 0);
  for (std::int64_t j = 1; j < p.num_keys; ++j) p.k.row(j) = p.k.row(0);
  p.attend();
  p.expect_mean_by(std::vector<double>(static_cast<std::size_t>(p.num_keys), 0.0), p.atol());
}

TEST_CASE("weights follow the scaled scores") {
  Problem p(2, 0);
  p.attend();
  p.expect_mean_by(p.scores(), p.atol());
}

TEST_CASE("huge scores neither overflow nor vanish") {
  Problem p(3, 0);
  p.scale = 1;
  p.q.setZero();
  p.q(0) = 1;  // the score of a key is its first element
  const auto huge = static_cast<float>(kv_course::pick(p.random, 20000, 60000));
  for (const float offset : {huge, -huge}) {
    std::vector<double> differences;
    for (std::int64_t j = 0; j < p.num_keys; ++j) {
      const float difference = static_cast<float>(kv_course::pick(p.random, 0, 32)) / 16;
      differences.push_back(difference);
      p.k(j, 0) = offset + difference;  // exact
    }
    INFO("scores near " << offset);
    p.attend();
    // Neighbouring floats near 60,000 are 0.004 apart: whoever takes exp(score - log-sum-exp) for a
    // weight is off by half of that.
    p.expect_mean_by(differences, 0.002);
  }
}

TEST_CASE("the logarithm of the sum of exponentials is returned") {
  Problem p(4, 0);
  double sum = 0;
  for (const double score : p.scores()) sum += std::exp(score);
  const float got = p.attend();
  kv_course::expect_close("log-sum-exp", {1}, std::vector<float>{got},
                          std::vector<double>{std::log(sum)}, p.atol());
}

TEST_CASE("rows are row_stride apart") {
  Problem p(5, 7);
  p.attend();
  p.expect_mean_by(p.scores(), p.atol());
}
