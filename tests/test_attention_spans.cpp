#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kv/attention/plain.hpp"
#include "kv/fast/attend.hpp"
#include "kv/fast/thread_team.hpp"
#include "support/attention_check.hpp"
#include "support/span_state.hpp"

namespace {

using kv::DType;
using kv_test::normals;
using kv_test::SpanState;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Result {
  std::vector<float> out;  // [q_len, num_q_heads, head_dim]
  std::vector<float> lse;  // [q_len, num_q_heads]
  bool operator==(const Result&) const = default;
};

using Attend = void (*)(std::span<const kv::AttentionItem>, const kv::HeadConfig&, int, float);

// Attention of one sequence; q rows lie `gap` NaN floats apart.
Result attend(Attend path, const kv::HeadConfig& heads, const SpanState& state,
              const std::vector<float>& q, float scale, std::int64_t gap = 0) {
  const std::int64_t q_len = static_cast<std::int64_t>(q.size()) / heads.q_dim();
  const std::int64_t stride = heads.q_dim() + gap;
  std::vector<float> spread(q_len * stride, kNan);
  for (std::int64_t t = 0; t < q_len; ++t)
    std::copy_n(q.data() + t * heads.q_dim(), heads.q_dim(), spread.data() + t * stride);
  Result r{std::vector<float>(q.size(), kNan), std::vector<float>(q_len * heads.num_q_heads, kNan)};
  const kv::AttentionItem item{spread.data(), stride, q_len, &state, r.out.data(), r.lse.data()};
  path({&item, 1}, heads, 0, scale);
  return r;
}

void check_against_reference(const kv::HeadConfig& heads, const SpanState& state,
                             const std::vector<float>& q, float scale, const Result& actual) {
  const std::int64_t q_len = static_cast<std::int64_t>(q.size()) / heads.q_dim();
  const kv::ReferenceAttention expected = kv::reference_attention(
      q.data(), state.k.data(), state.v.data(), heads, q_len, state.length(), scale);
  kv_test::require_close(actual.out, expected.out,
                         kv_test::attention_atol(expected.score_mass, expected.max_abs_value));
  // The log-sum-exp carries a score's error and the rounding of a number of its own size.
  double largest = 1.0;
  for (const double lse : expected.lse)
    if (std::isfinite(lse)) largest = std::max(largest, std::fabs(lse));
  kv_test::require_close(actual.lse, expected.lse,
                         kv_test::attention_atol(expected.score_mass, 1.0) +
                             largest * std::numeric_limits<float>::epsilon());
}

// One span of fp32.
SpanState simple_state(const kv::HeadConfig& heads, std::vector<float> k, std::vector<float> v) {
  const std::int64_t rows = static_cast<std::int64_t>(k.size()) / heads.kv_dim();
  return {heads, std::move(k), std::move(v), {{rows, DType::f32, 0}}};
}

std::vector<SpanState::Cut> random_cuts(std::int64_t kv_len, std::mt19937& random) {
  const int style = static_cast<int>(random() % 5);
  const std::int64_t longest[] = {kv_len + 1, 1, 16, 256, 7};
  constexpr DType kTypes[] = {DType::f32, DType::f16, DType::bf16};
  const DType common = kTypes[random() % 3];
  const bool mixed = random() % 4 == 0;
  std::vector<SpanState::Cut> cuts;
  for (std::int64_t left = kv_len; left > 0;) {
    if (random() % 8 == 0) cuts.push_back({0, common, 0});  // an empty span
    std::int64_t rows = std::min(left, longest[style]);
    if (style == 3) rows = std::min<std::int64_t>(left, 1 + random() % 256);
    cuts.push_back({rows, mixed ? kTypes[random() % 3] : common, std::int64_t(random() % 2) * 5});
    left -= rows;
  }
  if (random() % 4 == 0) cuts.push_back({0, common, 0});
  return cuts;
}

struct Threads {
  explicit Threads(int count) { kv::set_num_threads(count); }
  ~Threads() { kv::set_num_threads(before); }
  int before = kv::num_threads();
};

}  // namespace

TEST_CASE("attention over spans: any shape, cut and format agrees with the oracle", "[attention]") {
  const Attend path = GENERATE(&kv::plain::attend, &kv::fast::attend);
  constexpr kv::HeadConfig kHeads[] = {{9, 3, 64},  {4, 4, 32},  {8, 1, 16},   {1, 1, 1},
                                       {6, 2, 80},  {5, 5, 7},   {16, 2, 128}, {3, 1, 256},
                                       {2, 1, 96},  {14, 2, 20}, {33, 1, 40},  {2, 2, 300},
                                       {12, 3, 33}, {7, 1, 64},  {4, 1, 3}};
  constexpr std::int64_t kQueries[] = {1, 1, 1, 2, 3, 5, 31, 32, 33, 70};
  constexpr std::int64_t kPast[] = {0, 1, 2, 61, 62, 63, 64, 65, 127, 128, 200, 700};
  std::mt19937 random(3);
  for (int round = 0; round < 400; ++round) {
    const kv::HeadConfig heads = kHeads[round % std::size(kHeads)];
    const std::int64_t q_len = kQueries[random() % std::size(kQueries)];
    const std::int64_t kv_len = q_len + kPast[random() % std::size(kPast)];
    const float spread = std::pow(10.0f, 0.5f * static_cast<float>(random() % 4) - 0.5f);
    const SpanState state(heads, normals(kv_len * heads.kv_dim(), random, spread),
                          normals(kv_len * heads.kv_dim(), random), random_cuts(kv_len, random));
    const std::vector<float> q = normals(q_len * heads.q_dim(), random);
    const float scale = 1.0f / std::sqrt(static_cast<float>(heads.head_dim));
    const Threads threads(1 + static_cast<int>(random() % 3));
    INFO("round " << round << ": heads " << heads.num_q_heads << "/" << heads.num_kv_heads << " of "
                  << heads.head_dim << ", q_len " << q_len << ", kv_len " << kv_len);
    const Result actual = attend(path, heads, state, q, scale, random() % 2 * 3);
    check_against_reference(heads, state, q, scale, actual);
  }
}

TEST_CASE("attention over spans: long sequences are cut over threads and merged", "[attention]") {
  const Attend path = GENERATE(&kv::plain::attend, &kv::fast::attend);
  std::mt19937 random(5);
  const kv::HeadConfig heads{9, 3, 64};
  for (const std::int64_t q_len : {1, 4, 40}) {
    const std::int64_t kv_len = 3000;
    const SpanState state(heads, normals(kv_len * heads.kv_dim(), random, 2.0f),
                          normals(kv_len * heads.kv_dim(), random), random_cuts(kv_len, random));
    const std::vector<float> q = normals(q_len * heads.q_dim(), random);
    for (const int count : {1, 2, 3, 8}) {
      const Threads threads(count);
      const Result actual = attend(path, heads, state, q, 0.125f);
      check_against_reference(heads, state, q, 0.125f, actual);
      // Which thread takes a part does not matter: the same call gives the same bits.
      for (int i = 0; i < 3; ++i) REQUIRE(attend(path, heads, state, q, 0.125f) == actual);
    }
  }
}

TEST_CASE("attention over spans: a single key returns its value exactly", "[attention]") {
  const Attend path = GENERATE(&kv::plain::attend, &kv::fast::attend);
  std::mt19937 random(1);
  for (const kv::HeadConfig heads : {kv::HeadConfig{4, 2, 64}, {3, 1, 5}, {64, 2, 16}}) {
    const SpanState state =
        simple_state(heads, normals(heads.kv_dim(), random), normals(heads.kv_dim(), random));
    const Result r = attend(path, heads, state, normals(heads.q_dim(), random), 0.3f);
    for (int h = 0; h < heads.num_q_heads; ++h)
      for (int d = 0; d < heads.head_dim; ++d)
        REQUIRE(r.out[h * heads.head_dim + d] ==
                state.v[h / heads.group_size() * heads.head_dim + d]);
  }
}

TEST_CASE("attention over spans: equal keys average the values, a strong key picks its own",
          "[attention]") {
  const Attend path = GENERATE(&kv::plain::attend, &kv::fast::attend);
  const kv::HeadConfig heads{2, 1, 8};
  for (const std::int64_t kv_len : {2, 63, 64, 65, 400}) {
    std::vector<float> k(kv_len * 8, 1.0f), v(kv_len * 8);
    for (std::int64_t j = 0; j < kv_len; ++j)
      for (int d = 0; d < 8; ++d) v[j * 8 + d] = static_cast<float>(j + d);
    const std::vector<float> q(16, 1.0f);
    const Result mean = attend(path, heads, simple_state(heads, k, v), q, 1.0f);
    for (int d = 0; d < 8; ++d) {
      const float expected = static_cast<float>(kv_len - 1) / 2.0f + static_cast<float>(d);
      REQUIRE(std::fabs(mean.out[d] - expected) <= 4e-6f * static_cast<float>(kv_len + 8));
    }
    // Key `picked` scores 200 more than all others: their weights, e^-200, are 0 in floats. Eigen's
    // exp() gives at least 4e-39; with values up to kv_len + 7 that shows only beside a value of 0.
    const float most =
        path == &kv::plain::attend ? 4e-39f * static_cast<float>(kv_len * (kv_len + 7)) : 0.0f;
    for (const std::int64_t picked : {std::int64_t{0}, kv_len / 2, kv_len - 1}) {
      std::vector<float> strong = k;
      for (int d = 0; d < 8; ++d) strong[picked * 8 + d] = 26.0f;
      const Result one = attend(path, heads, simple_state(heads, strong, v), q, 1.0f);
      for (int d = 0; d < 8; ++d) REQUIRE(std::fabs(one.out[d] - v[picked * 8 + d]) <= most);
    }
  }
}

// Case A4: the mask is aligned at the bottom right.
TEST_CASE("attention over spans: fewer and more queries than keys see the right keys",
          "[attention]") {
  const Attend path = GENERATE(&kv::plain::attend, &kv::fast::attend);
  // V is one-hot in its position and all keys are equal: out shows which keys were seen.
  const kv::HeadConfig heads{1, 1, 5};
  for (const auto& [q_len, kv_len] : std::vector<std::pair<int, int>>{{2, 5}, {5, 2}, {3, 3}}) {
    std::vector<float> k(kv_len * 5, 0.5f), v(kv_len * 5, 0.0f);
    for (int j = 0; j < kv_len; ++j) v[j * 5 + j] = 1.0f;
    const Result r =
        attend(path, heads, simple_state(heads, k, v), std::vector<float>(q_len * 5), 1.0f);
    for (int t = 0; t < q_len; ++t) {
      const int seen = std::clamp(t + kv_len - q_len + 1, 0, kv_len);
      for (int j = 0; j < 5; ++j) {
        const float expected = j < seen ? 1.0f / static_cast<float>(seen) : 0.0f;
        REQUIRE(std::fabs(r.out[t * 5 + j] - expected) <= 1e-6f);
      }
      if (seen == 0) {
        for (int j = 0; j < 5; ++j) REQUIRE(r.out[t * 5 + j] == 0.0f);
        REQUIRE(r.lse[t] == -kInfinity);
      } else {
        REQUIRE(std::fabs(r.lse[t] - std::log(static_cast<float>(seen))) <= 1e-6f);
      }
    }
  }
}

// Case B5.
TEST_CASE("attention over spans: without keys the output is 0 and the log-sum-exp -inf",
          "[attention]") {
  const Attend path = GENERATE(&kv::plain::attend, &kv::fast::attend);
  const kv::HeadConfig heads{4, 2, 64};
  const SpanState state(heads, {}, {}, {{0, DType::bf16, 0}, {0, DType::f32, 0}});
  const SpanState no_spans(heads, {}, {}, {});
  for (const SpanState* s : {&state, &no_spans}) {
    const Result r = attend(path, heads, *s, std::vector<float>(2 * heads.q_dim(), 1.0f), 1.0f);
    for (const float x : r.out) REQUIRE(x == 0.0f);
    for (const float x : r.lse) REQUIRE(x == -kInfinity);
  }
  path({}, heads, 0, 1.0f);  // an empty batch
  REQUIRE(attend(path, heads, state, {}, 1.0f).out.empty());
}

// Case A5, as bits: also 0 * NaN would show.
TEST_CASE("attention over spans: what later tokens hold never reaches earlier ones",
          "[attention]") {
  const Attend path = GENERATE(&kv::plain::attend, &kv::fast::attend);
  std::mt19937 random(9);
  for (const kv::HeadConfig heads :
       {kv::HeadConfig{4, 2, 16}, {9, 3, 64}, {1, 1, 5}, {12, 1, 40}}) {
    for (const std::int64_t q_len : {2, 4, 9, 50, 80}) {
      for (const std::int64_t past : {0, 3, 60, 100}) {
        const std::int64_t kv_len = past + q_len;
        std::vector<float> k = normals(kv_len * heads.kv_dim(), random);
        std::vector<float> v = normals(kv_len * heads.kv_dim(), random);
        std::vector<float> q = normals(q_len * heads.q_dim(), random);
        const Result good = attend(path, heads, simple_state(heads, k, v), q, 0.25f);
        const std::int64_t bad = q_len / 2;  // from this token on everything is NaN
        std::fill(k.begin() + (past + bad) * heads.kv_dim(), k.end(), kNan);
        std::fill(v.begin() + (past + bad) * heads.kv_dim(), v.end(), kNan);
        std::fill(q.begin() + bad * heads.q_dim(), q.end(), kNan);
        const Result poisoned = attend(path, heads, simple_state(heads, k, v), q, 0.25f);
        for (std::int64_t i = 0; i < bad * heads.q_dim(); ++i)
          REQUIRE(poisoned.out[i] == good.out[i]);
        for (std::int64_t i = 0; i < bad * heads.num_q_heads; ++i)
          REQUIRE(poisoned.lse[i] == good.lse[i]);
        // And it is not hidden where it is seen.
        for (std::size_t i = bad * heads.q_dim(); i < poisoned.out.size(); ++i)
          REQUIRE(std::isnan(poisoned.out[i]));
      }
    }
  }
}

TEST_CASE("attention over spans: a NaN in one visible value or key shows in the output",
          "[attention]") {
  const Attend path = GENERATE(&kv::plain::attend, &kv::fast::attend);
  std::mt19937 random(10);
  const kv::HeadConfig heads{2, 1, 32};
  for (const std::int64_t q_len : {1, 20}) {
    const std::vector<float> k = normals(100 * 32, random), v = normals(100 * 32, random);
    const std::vector<float> q = normals(q_len * heads.q_dim(), random);
    std::vector<float> bad_v = v, bad_k = k;
    bad_v[70 * 32 + 3] = kNan;
    bad_k[70 * 32 + 3] = kNan;
    const Result r = attend(path, heads, simple_state(heads, k, bad_v), q, 1.0f);
    REQUIRE(std::isnan(r.out[3]));
    REQUIRE_FALSE(std::isnan(r.out[4]));
    REQUIRE(std::isnan(attend(path, heads, simple_state(heads, bad_k, v), q, 1.0f).out[4]));
  }
}

// Cases B2 and B9, for one and for many query rows, with the keys in one and in two tiles.
TEST_CASE("attention over spans: scores of any size keep their differences", "[attention]") {
  const Attend path = GENERATE(&kv::plain::attend, &kv::fast::attend);
  struct Case {
    float first, second;    // scores
    double out, lse, atol;  // with V = 1 and 2
  };
  // At 6e4 neighbouring floats are 0.0039 apart, so such a log-sum-exp is known to half of that.
  const Case cases[] = {{-60000.0f, -60001.0f, 1.268941421, -59999.686738, 0.002},
                        {60000.0f, 60001.0f, 1.731058579, 60001.313262, 0.002},
                        {100.0f, 0.0f, 1.0, 100.0, 1e-6},
                        {0.0f, 100.0f, 2.0, 100.0, 1e-6},
                        {10100.0f, 10000.0f, 1.0, 10100.0, 1e-6},
                        {-9900.0f, -10000.0f, 1.0, -9900.0, 1e-6},
                        {0.0f, 0.0f, 1.5, 0.693147181, 1e-6}};
  for (const Case& c : cases) {
    for (const std::int64_t between : {0, 62, 100}) {  // keys in between score -inf
      std::vector<float> k(2 + between, -kInfinity), v(2 + between, 7.0f);
      k.front() = c.first, k.back() = c.second;
      v.front() = 1.0f, v.back() = 2.0f;
      for (const int num_heads : {1, 3, 16}) {
        const kv::HeadConfig few{num_heads, 1, 1};
        const Result r =
            attend(path, few, simple_state(few, k, v), std::vector<float>(num_heads, 1.0f), 1.0f);
        for (int h = 0; h < num_heads; ++h) {
          REQUIRE(std::fabs(r.out[h] - c.out) <= 2e-6);
          REQUIRE(std::fabs(r.lse[h] - c.lse) <= c.atol);
        }
      }
    }
  }
}

TEST_CASE("attention over spans: a span whose scores are all -inf has no weight", "[attention]") {
  const Attend path = GENERATE(&kv::plain::attend, &kv::fast::attend);
  const kv::HeadConfig heads{1, 1, 1};
  for (const std::int64_t masked : {1, 16, 100}) {
    for (const bool first : {false, true}) {
      std::vector<float> k(masked + 2, -kInfinity), v(masked + 2, 7.0f);
      const std::size_t at = first ? masked : 0;  // of the two keys with a score
      k[at] = k[at + 1] = 0.5f;
      v[at] = 1.0f, v[at + 1] = 2.0f;
      std::vector<SpanState::Cut> cuts = {{2, DType::f32, 0}, {masked, DType::f32, 0}};
      if (first) std::swap(cuts[0], cuts[1]);
      const Result r = attend(path, heads, {heads, k, v, cuts}, {1.0f}, 1.0f);
      REQUIRE(std::fabs(r.out[0] - 1.5f) <= 1e-6f);
      REQUIRE(std::fabs(r.lse[0] - (0.5f + std::log(2.0f))) <= 1e-6f);
    }
  }
}

// Cases B7, C5 and, by the mixture of lengths, D6's neighbour: nothing is left from another item.
TEST_CASE("attention over spans: each sequence of a batch equals its solo run", "[attention]") {
  const Attend path = GENERATE(&kv::plain::attend, &kv::fast::attend);
  std::mt19937 random(21);
  const kv::HeadConfig heads{4, 2, 64};
  std::vector<SpanState> states;
  std::vector<std::vector<float>> queries;
  const std::pair<int, int> shapes[] = {{1, 3}, {1, 5}, {40, 40}, {1, 2000}, {3, 1000}, {2, 1}};
  for (const auto& [q_len, kv_len] : shapes) {
    states.emplace_back(heads, normals(kv_len * heads.kv_dim(), random),
                        normals(kv_len * heads.kv_dim(), random), random_cuts(kv_len, random));
    queries.push_back(normals(q_len * heads.q_dim(), random));
  }
  for (const int count : {1, 2, 3}) {
    const Threads threads(count);
    std::vector<std::vector<float>> out;
    for (const std::vector<float>& q : queries) out.emplace_back(q.size(), kNan);
    std::vector<kv::AttentionItem> items;
    for (std::size_t i = 0; i < states.size(); ++i)  // nobody asks for the log-sum-exp
      items.push_back({queries[i].data(), heads.q_dim(),
                       static_cast<std::int64_t>(queries[i].size()) / heads.q_dim(), &states[i],
                       out[i].data(), nullptr});
    path(items, heads, 0, 0.125f);
    for (std::size_t i = 0; i < states.size(); ++i)
      check_against_reference(heads, states[i], queries[i], 0.125f,
                              {out[i], attend(path, heads, states[i], queries[i], 0.125f).lse});
  }
}

// Case C1.
TEST_CASE("attention over spans: query heads 0, 1, 2, 3 read KV heads 0, 0, 1, 1", "[attention]") {
  const Attend path = GENERATE(&kv::plain::attend, &kv::fast::attend);
  const kv::HeadConfig heads{4, 2, 3};
  for (const std::int64_t q_len : {1, 10}) {
    std::vector<float> k(10 * 6, 0.3f), v(10 * 6);
    for (int j = 0; j < 10; ++j)
      for (int i = 0; i < 6; ++i) v[j * 6 + i] = i < 3 ? 1.0f : 2.0f;
    const Result r =
        attend(path, heads, simple_state(heads, k, v), std::vector<float>(q_len * 12, 1.0f), 1.0f);
    for (std::int64_t t = 0; t < q_len; ++t)
      for (int h = 0; h < 4; ++h)
        for (int d = 0; d < 3; ++d) REQUIRE(r.out[(t * 4 + h) * 3 + d] == (h < 2 ? 1.0f : 2.0f));
  }
}

TEST_CASE("attention over spans: misuse is refused", "[attention]") {
  const Attend path = GENERATE(&kv::plain::attend, &kv::fast::attend);
  const kv::HeadConfig heads{2, 1, 8};
  const SpanState state = simple_state(heads, std::vector<float>(8), std::vector<float>(8));
  std::vector<float> q(16), out(16);
  kv::AttentionItem item{q.data(), 16, 1, nullptr, out.data(), nullptr};
  REQUIRE_THROWS_AS(path({&item, 1}, heads, 0, 1.0f), std::invalid_argument);
  item.state = &state;
  item.q_len = -1;
  REQUIRE_THROWS_AS(path({&item, 1}, heads, 0, 1.0f), std::invalid_argument);
  item.q_len = 1;
  REQUIRE_THROWS_AS(path({&item, 1}, {3, 2, 8}, 0, 1.0f), kv::InputError);
}
