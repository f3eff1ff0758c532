// The oracle itself, on cases whose answer is known by thought.
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "kv/attention/online_softmax.hpp"
#include "kv/attention/reference.hpp"

using Catch::Approx;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

}  // namespace

TEST_CASE("the oracle: a strongly matching key picks its own value", "[reference]") {
  const kv::HeadConfig heads{1, 1, 2};
  const std::vector<float> q = {0, 100};
  const std::vector<float> k = {100, 0, 0, 100, -100, 0};
  const std::vector<float> v = {1, 2, 3, 4, 5, 6};
  const auto result = kv::reference_attention(q.data(), k.data(), v.data(), heads, 1, 3, 1.0);
  CHECK(result.out[0] == 3.0);
  CHECK(result.out[1] == 4.0);
  CHECK(result.lse[0] == 10000.0);
}

TEST_CASE("the oracle: equal keys average the values they can see", "[reference]") {
  const kv::HeadConfig heads{1, 1, 1};
  const std::vector<float> q = {1, 1, 1};
  const std::vector<float> k = {2, 2, 2};
  const std::vector<float> v = {3, 6, 12};
  const auto result = kv::reference_attention(q.data(), k.data(), v.data(), heads, 3, 3, 0.5);
  CHECK(result.out == std::vector<double>{3.0, 4.5, 7.0});
  CHECK(result.lse[2] == Approx(1.0 + std::log(3.0)));
}

TEST_CASE("the oracle: the causal mask is aligned bottom-right", "[reference]") {
  const kv::HeadConfig heads{1, 1, 1};
  // With v = 1, 2, 4, ... and equal keys the output names the keys that were seen.
  const auto visible = [&](int q_len, int kv_len) {
    const std::vector<float> q(q_len, 0.0f), k(kv_len, 0.0f);
    std::vector<float> v(kv_len);
    for (int j = 0; j < kv_len; ++j) v[j] = static_cast<float>(1 << j);
    return kv::reference_attention(q.data(), k.data(), v.data(), heads, q_len, kv_len, 1.0);
  };
  SECTION("2 queries over 5 keys see 4 and 5 of them") {
    const auto result = visible(2, 5);
    CHECK(result.out == std::vector<double>{15.0 / 4, 31.0 / 5});
  }
  SECTION("5 queries over 2 keys: three rows see nothing, give 0 and -inf") {
    const auto result = visible(5, 2);
    CHECK(result.out == std::vector<double>{0, 0, 0, 1, 1.5});
    for (int t = 0; t < 3; ++t) CHECK(result.lse[t] == -kInfinity);
    CHECK(result.lse[3] == 0.0);
  }
  SECTION("no keys at all") {
    const auto result = visible(3, 0);
    CHECK(result.out == std::vector<double>{0, 0, 0});
    CHECK(result.lse[2] == -kInfinity);
  }
}

TEST_CASE("the oracle: masked keys are not read", "[reference]") {
  const kv::HeadConfig heads{1, 1, 1};
  const std::vector<float> q = {1, 1};
  const std::vector<float> k = {1, kNan};
  const std::vector<float> v = {7, kNan};
  const auto result = kv::reference_attention(q.data(), k.data(), v.data(), heads, 2, 2, 1.0);
  CHECK(result.out[0] == 7.0);
  CHECK(std::isnan(result.out[1]));
}

TEST_CASE("the oracle: query heads share KV heads in runs, not in turn", "[reference]") {
  for (const auto& [num_q, num_kv] : {std::pair{4, 2}, {12, 12}, {32, 8}, {28, 4}, {6, 1}}) {
    const kv::HeadConfig heads{num_q, num_kv, 1};
    const std::vector<float> q(num_q, 0.0f), k(num_kv, 0.0f);
    std::vector<float> v(num_kv);
    for (int g = 0; g < num_kv; ++g) v[g] = static_cast<float>(g + 1);
    const auto result = kv::reference_attention(q.data(), k.data(), v.data(), heads, 1, 1, 1.0);
    for (int h = 0; h < num_q; ++h) CHECK(result.out[h] == h / (num_q / num_kv) + 1);
  }
}

TEST_CASE("the oracle: huge scores keep their difference", "[reference]") {
  const kv::HeadConfig heads{1, 1, 1};
  const std::vector<float> q = {1};
  const std::vector<float> k = {-60000, -60001};
  const std::vector<float> v = {1, 2};
  const auto result = kv::reference_attention(q.data(), k.data(), v.data(), heads, 1, 2, 1.0);
  CHECK(result.out[0] == Approx(1.268941).epsilon(1e-6));
  CHECK(result.lse[0] == Approx(-59999.686738).epsilon(1e-10));
}

TEST_CASE("online softmax: pushing scores one by one gives the softmax of them all", "[online]") {
  const std::vector<float> scores = {3.0f, -1.0f, 7.5f, 7.5f, -40.0f, 0.25f};
  kv::OnlineSoftmax softmax;
  double weighted = 0.0, expected_sum = 0.0, expected_weighted = 0.0;
  for (std::size_t j = 0; j < scores.size(); ++j) {
    const float rescale = softmax.push(scores[j]);
    weighted = weighted * rescale + std::exp(scores[j] - softmax.m) * static_cast<double>(j);
    expected_sum += std::exp(double{scores[j]});
    expected_weighted += std::exp(double{scores[j]}) * static_cast<double>(j);
  }
  CHECK(weighted / softmax.l == Approx(expected_weighted / expected_sum).epsilon(1e-6));
  CHECK(softmax.log_sum_exp() == Approx(std::log(expected_sum)).epsilon(1e-6));
}

TEST_CASE("online softmax: the empty state is neutral", "[online]") {
  kv::OnlineSoftmax softmax;
  CHECK(softmax.log_sum_exp() == -INFINITY);
  CHECK(softmax.push(-INFINITY) == 1.0f);
  CHECK(softmax.l == 0.0f);
  CHECK(softmax.push(-60000.0f) == 0.0f);  // exp(-inf - m): nothing was accumulated before
  CHECK(softmax.l == 1.0f);
  CHECK(softmax.m == -60000.0f);
  CHECK(softmax.push(-INFINITY) == 1.0f);  // a masked key changes nothing
  CHECK(softmax.l == 1.0f);
}

TEST_CASE("online softmax: a NaN score is never taken for a key that nobody sees", "[online]") {
  const float nan = std::nanf("");
  for (const std::vector<float>& scores :
       {std::vector<float>{nan}, {nan, 1.0f}, {1.0f, nan}, {-INFINITY, nan, -INFINITY, 2.0f}}) {
    kv::OnlineSoftmax softmax;
    for (const float score : scores) softmax.push(score);
    CHECK(std::isnan(softmax.l));
    CHECK(std::isnan(softmax.log_sum_exp()));
  }
}

TEST_CASE("online softmax: scores 100 and 0 neither overflow nor vanish", "[online]") {
  for (const float offset : {0.0f, 1e4f}) {
    kv::OnlineSoftmax softmax;
    softmax.push(100.0f + offset);
    softmax.push(offset);
    CHECK(std::exp(100.0f + offset - softmax.m) / softmax.l == 1.0f);
    CHECK(std::exp(offset - softmax.m) / softmax.l == Approx(3.7e-44).epsilon(0.04));
  }
}

TEST_CASE("merge of two parts: the empty part is neutral in both orders", "[online]") {
  const auto none = kv::merge_factors(-INFINITY, -INFINITY);
  CHECK((none.a == 0.0f && none.b == 0.0f && none.lse == -INFINITY));
  const auto right = kv::merge_factors(-INFINITY, 1.0f);
  CHECK((right.a == 0.0f && right.b == 1.0f && right.lse == 1.0f));
  const auto left = kv::merge_factors(1.0f, -INFINITY);
  CHECK((left.a == 1.0f && left.b == 0.0f && left.lse == 1.0f));
}

TEST_CASE("merge of two parts: log-sum-exp is natural", "[online]") {
  const auto merged = kv::merge_factors(0.0f, 1.0f);
  CHECK(merged.a * 1.0f + merged.b * 3.0f == Approx(2.462117).epsilon(1e-6));
  CHECK(merged.lse == Approx(1.313262).epsilon(1e-6));
}
