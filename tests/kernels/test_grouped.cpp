// Step 6 in particular: groups of every size, its ring of tiles, its traffic, the combination of
// its warps. The cases that every step shares are in test_ladder.cpp.
#include <catch2/catch_test_macros.hpp>
#include <string>

#include "attention/tile_shape.hpp"
#include "attention/traffic.hpp"
#include "ladder_steps.hpp"
#include "old_device.hpp"

using namespace kv_test;
using kv::AttentionShape;
using kv::AttentionStep;
using kv::Backend;
using kv::DType;
using kv::SplitOptions;
using kv::emulator::Traffic;

namespace {

constexpr AttentionStep kStep = AttentionStep::grouped;
constexpr Backend kBackends[] = {Backend::emulated, Backend::checked};
constexpr int kGroups[] = {1, 2, 3, 4, 7, 8, 12, 16, 32};
constexpr float kInfinity = std::numeric_limits<float>::infinity();

Looseness looseness(DType dtype) {
  if (dtype == DType::f32) return {};
  return dtype == DType::f16 ? kRoundedToF16 : kRoundedToBf16;
}

void require_right(const AttentionProblem& p, Backend backend, const SplitOptions& split = {}) {
  INFO(kv::name(backend) << ", " << kv::info(p.shape.kv_dtype).name << ", "
                         << p.shape.heads.num_q_heads << " on " << p.shape.heads.num_kv_heads
                         << " heads of " << p.shape.heads.head_dim << ", fixed_chunk "
                         << split.fixed_chunk);
  require_oracle(p, run(p, kStep, backend, true, split), looseness(p.shape.kv_dtype));
}

int keys_of_tile(const AttentionShape& shape) {
  return kv::grouped_keys(shape.heads.head_dim,
                          static_cast<int>(kv::info(shape.kv_dtype).block_bytes));
}

// A group of three of one query each whose scores and values are given: q and k are 0 but for the
// first element, and each value fills its row. Exact in every format.
AttentionProblem given_scores(DType dtype, std::vector<float> scores, std::vector<float> values) {
  AttentionProblem p =
      zero_problem({{3, 1, 32}, dtype, 1.0f, true}, {1, static_cast<int>(scores.size())});
  for (int h = 0; h < 3; ++h) p.q[h * 32] = 1.0f;
  for (std::size_t j = 0; j < scores.size(); ++j) {
    p.k[j * 32] = scores[j];
    for (int d = 0; d < 32; ++d) p.v[j * 32 + d] = values[j];
  }
  return p;
}

// \param tolerance in fp32; in 16 bit weights are off by up to half a unit of the format more
void require_result(std::vector<float> scores, std::vector<float> values, int fixed_chunk,
                    float out, float lse, float tolerance) {
  for (const DType dtype : kFormats) {
    const AttentionProblem p = given_scores(dtype, scores, values);
    const float out_tolerance =
        tolerance + std::fabs(out) * static_cast<float>(2.0 * looseness(dtype).weight_error);
    for (const Backend backend : kBackends) {
      const AttentionResult result = run(p, kStep, backend, true, {8, fixed_chunk});
      INFO(kv::name(backend) << ", " << kv::info(dtype).name << ", fixed_chunk " << fixed_chunk
                             << ": out " << result.out[0] << ", lse " << result.lse[0]);
      for (const float x : result.out) REQUIRE(std::fabs(x - out) <= out_tolerance);
      for (const float x : result.lse) {
        if (std::isinf(lse))
          REQUIRE(x == lse);
        else
          REQUIRE(std::fabs(x - lse) <= tolerance * std::max(1.0f, std::fabs(lse)));
      }
    }
  }
}

// The rows of sequence b, out of a result.
std::vector<float> out_of(const AttentionProblem& p, const AttentionResult& result, int b) {
  const auto begin = result.out.begin() + p.sequences[b].q_begin * p.shape.heads.q_dim();
  return {begin, begin + p.sequences[b].q_len * p.shape.heads.q_dim()};
}

// The same arrays with one sequence only.
AttentionProblem alone(AttentionProblem p, int b) {
  p.sequences = {p.sequences[b]};
  return p;
}

// The counters of the step's kernels, merge included.
kv::emulator::Counters count(const AttentionProblem& p, bool with_lse, const SplitOptions& split) {
  kv::emulator::reset_counters();
  run(p, kStep, Backend::checked, with_lse, split);
  kv::emulator::Counters sum;
  for (const auto& [kernel, counters] : kv::emulator::counters_by_kernel()) sum.add(counters);
  return sum;
}

kv::SplitPlan plan_of(const AttentionProblem& p, const SplitOptions& split) {
  const kv::HeadConfig& heads = p.shape.heads;
  const int num_heads = kv::grouped_heads(heads.group_size(), heads.head_dim);
  return kv::plan_split(heads.num_q_heads / num_heads, p.shape.causal, p.sequences, split);
}

}  // namespace

TEST_CASE("grouped: every head size and format agrees with the oracle", "[kernels][big][grouped]") {
  for (const DType dtype : kFormats)
    for (const int head_dim : kv::kHeadDims) {
      const AttentionShape shape{{6, 2, head_dim}, dtype, usual_scale(head_dim), true};
      // Tiles of a warp and of all warps, and their neighbours; 0 and 1; more than the ring holds.
      const int tile = keys_of_tile(shape), round = tile * kv::grouped_warps(head_dim);
      const Lengths lengths[] = {
          {1, 0},   {1, 1},         {1, tile - 1}, {1, tile},      {1, tile + 1},
          {1, 127}, {1, round - 1}, {1, round},    {1, round + 1}, {1, 3 * round + tile + 5}};
      const AttentionProblem p = random_problem(shape, lengths, 1);
      for (const int chunk : {0, 40}) require_right(p, Backend::emulated, {8, chunk});
    }
}

TEST_CASE("grouped: every head size and format is free of faults", "[kernels][big][grouped]") {
  for (const DType dtype : kFormats)
    for (const int head_dim : kv::kHeadDims) {
      const AttentionShape shape{{3, 1, head_dim}, dtype, usual_scale(head_dim), true};
      const int round = keys_of_tile(shape) * kv::grouped_warps(head_dim);
      // The second is read in full rounds of all warps, the third in parts.
      const Lengths lengths[] = {{1, 0}, {1, 2 * round + 3}, {1, 2 * round + 40}};
      const AttentionProblem p = random_problem(shape, lengths, 2);
      require_right(p, Backend::checked, {8, 2 * round + 16});
    }
}

TEST_CASE("grouped: groups of every size, in every format, agree with the oracle",
          "[kernels][big][grouped]") {
  const Lengths lengths[] = {{1, 50}, {1, 13}, {1, 0}, {2, 83}};
  for (const DType dtype : kFormats)
    for (const int group : kGroups)
      for (const int head_dim : {64, 80}) {
        const AttentionProblem p = random_problem(
            {{2 * group, 2, head_dim}, dtype, usual_scale(head_dim), true}, lengths, 3);
        require_right(p, Backend::emulated, {8, 0});
        if (head_dim == 80) require_right(p, Backend::checked, {8, 32});
      }
}

TEST_CASE("grouped: a group that one CTA cannot hold is shared out in equal parts",
          "[kernels][grouped]") {
  REQUIRE(kv::grouped_heads(32, 128) == 32);
  REQUIRE(kv::grouped_heads(32, 256) == 16);
  REQUIRE(kv::grouped_heads(64, 64) == 32);
  REQUIRE(kv::grouped_heads(48, 64) == 24);
  REQUIRE(kv::grouped_heads(7, 64) == 7);
  REQUIRE(kv::grouped_heads(37, 64) == 1);  // a prime
  REQUIRE(kv::grouped_heads(1, 256) == 1);
  const Lengths lengths[] = {{1, 70}, {1, 5}};
  for (const DType dtype : kFormats) {
    for (const int group : {37, 48, 64})
      require_right(random_problem({{group, 1, 32}, dtype, usual_scale(32), true}, lengths, 4),
                    Backend::emulated, {8, 40});
    for (const int group : {3, 16, 32})
      require_right(
          random_problem({{2 * group, 2, 256}, dtype, usual_scale(256), true}, lengths, 5),
          Backend::emulated, {8, 40});
  }
}

TEST_CASE("grouped: any order of threads gives the same bits, without a report",
          "[kernels][big][grouped]") {
  const Lengths lengths[] = {{1, 167}, {2, 30}, {1, 0}};
  for (const Backend backend : kBackends)
    for (const auto& [dtype, head_dim, group] :
         {std::tuple{DType::bf16, 128, 4}, {DType::f16, 80, 20}, {DType::f32, 64, 3}}) {
      const AttentionProblem p =
          random_problem({{group, 1, head_dim}, dtype, usual_scale(head_dim), true}, lengths, 6);
      const AttentionResult first = run(p, kStep, backend, true, {8, 96});
      in_every_order([&] {
        const AttentionResult again = run(p, kStep, backend, true, {8, 96});
        require_oracle(p, again, looseness(dtype));
        for (int b = 0; b < 3; ++b) REQUIRE(out_of(p, again, b) == out_of(p, first, b));
      });
    }
}

TEST_CASE("grouped: 1 to 17 parts agree with the oracle", "[kernels][big][grouped]") {
  for (const int group : {3, 18})
    for (int num_parts = 1; num_parts <= 17; num_parts += 2) {
      INFO(num_parts << " parts");
      const Lengths lengths[] = {{1, 11 * num_parts - 4}};
      const AttentionProblem p =
          random_problem({{group, 1, 80}, DType::f32, usual_scale(80), true}, lengths, 7);
      require_right(p, Backend::emulated, {8, 11});
      if (num_parts == 5) require_right(p, Backend::checked, {8, 11});
    }
}

TEST_CASE("grouped: thousands of keys, cut as the planner likes", "[kernels][grouped]") {
  const Lengths lengths[] = {{1, 5003}, {1, 700}, {1, 1}};
  for (const DType dtype : kFormats)
    for (const int num_slots : {0, 40})
      require_right(random_problem({{4, 1, 128}, dtype, usual_scale(128), true}, lengths, 8),
                    Backend::emulated, {num_slots, 0});
}

TEST_CASE("grouped: several query rows, and more rows than keys", "[kernels][grouped]") {
  const Lengths lengths[] = {{2, 150}, {5, 50}, {1, 12}, {0, 20}, {7, 3}, {5, 0}, {3, 3}};
  for (const bool causal : {true, false}) {
    const AttentionProblem p =
        random_problem({{2, 1, 64}, DType::f32, usual_scale(64), causal}, lengths, 9);
    for (const int chunk : {0, 16, 35}) require_right(p, Backend::emulated, {8, chunk});
    require_right(p, Backend::checked, {8, 16});
  }
}

TEST_CASE("grouped: scores far apart need the running maximum", "[kernels][grouped]") {
  const Lengths lengths[] = {{1, 301}};
  for (const DType dtype : kFormats)
    for (const float spread : {10.0f, 200.0f})
      for (const int chunk : {0, 50})
        require_right(random_problem(grouped_shape(128, dtype, true), lengths, 10, spread),
                      Backend::emulated, {8, chunk});
}

TEST_CASE("grouped: the number of keys is exact", "[kernels][grouped]") {
  // With q = 0 lse is the logarithm of the number of keys, which no rounding to 16 bit touches.
  // Keys that belong to nobody lie around and would be counted if they were read.
  for (const DType dtype : kFormats)
    for (const int head_dim : {32, 128, 256})
      for (const int kv_len : {1, 15, 16, 17, 33, 64, 65, 129, 257}) {
        const Lengths lengths[] = {{1, kv_len}};
        AttentionProblem p =
            random_problem({{2, 1, head_dim}, dtype, 1.0f, true}, lengths, 11, 0.0f);
        for (const int chunk : {0, 20}) {
          const AttentionResult result = run(p, kStep, Backend::emulated, true, {8, chunk});
          INFO(kv::info(dtype).name << ", head_dim " << head_dim << ", " << kv_len << " keys");
          for (int h = 0; h < 2; ++h)
            REQUIRE(std::fabs(result.lse[p.sequences[0].q_begin * 2 + h] - std::log(kv_len)) <=
                    1e-5);
        }
      }
}

TEST_CASE("grouped: in fp32 it agrees with step 5, in 16 bit up to the rounded numbers",
          "[kernels][grouped]") {
  const Lengths lengths[] = {{1, 129}, {3, 40}};
  for (const DType dtype : kFormats) {
    AttentionProblem p = random_problem(grouped_shape(64, dtype, true), lengths, 12);
    for (float& x : p.q) x = rounded(x, dtype);
    const AttentionResult before = run(p, AttentionStep::split_kv, Backend::emulated);
    const AttentionResult result = run(p, kStep, Backend::emulated);
    // 8 eps * score mass 5 * |v| 3; a weighted mean moves by less than the largest value's
    // rounding.
    const float bound = 1.5e-5f + 4.0f * static_cast<float>(looseness(dtype).weight_error);
    for (std::size_t i = 0; i < result.out.size(); ++i) {
      if (std::isnan(result.out[i])) continue;  // between the sequences
      REQUIRE(std::fabs(result.out[i] - before.out[i]) <= bound);
    }
  }
}

TEST_CASE("grouped: each byte of K and V is read once for its group, and all else as predicted",
          "[kernels][big][grouped]") {
  const Lengths lengths[] = {{1, 0}, {1, 67}, {1, 130}, {2, 21}};
  for (const DType dtype : kFormats)
    for (const int head_dim : kv::kHeadDims)
      for (const auto& [group, with_lse] : {std::pair{3, true}, {3, false}, {20, true}}) {
        if (head_dim != 96 && (group == 20 || !with_lse)) continue;
        const AttentionShape shape{{2 * group, 2, head_dim}, dtype, usual_scale(head_dim), true};
        const AttentionProblem p = random_problem(shape, lengths, 13);
        const SplitOptions split{8, with_lse ? 20 : 0};
        const kv::emulator::Counters counted = count(p, with_lse, split);
        const kv::AttentionTraffic expected =
            kv::predicted_traffic(kStep, shape, p.sequences, with_lse, plan_of(p, split));
        INFO(kv::info(dtype).name << ", head_dim " << head_dim << ", group " << group << ", lse "
                                  << with_lse);
        REQUIRE(kv::counted_bytes(counted) == expected.total());
        REQUIRE(32 * counted.of(Traffic::global_store).units ==
                static_cast<std::uint64_t>(expected.stores()));
        // 0, 67 and 130 keys, and two rows that see 20 and 21; two KV heads.
        const std::int64_t element_bytes = kv::info(dtype).block_bytes;
        REQUIRE(expected.k == 2 * (67 + 130 + 20 + 21) * head_dim * element_bytes);
        REQUIRE(expected.v == expected.k);
      }
}

TEST_CASE("grouped: the loop has no bank conflicts", "[kernels][big][grouped]") {
  // Nor has the rest, but for rows of 80: eight lanes that add up what the warps have found may
  // reach over the end of a row and its padding, once in four times at most.
  const Lengths lengths[] = {{1, 130}};
  for (const DType dtype : kFormats)
    for (const int head_dim : kv::kHeadDims)
      for (const int group : {4, 32}) {
        INFO(kv::info(dtype).name << ", head_dim " << head_dim << ", group " << group);
        run(random_problem({{group, 1, head_dim}, dtype, usual_scale(head_dim), true}, lengths, 19),
            kStep, Backend::checked);
        const kv::emulator::Counters& counters = kv::emulator::last_launch().counters;
        REQUIRE(counters.of(Traffic::shared_load).requests > 0);
        const std::uint64_t num_adds =
            std::uint64_t{4} * kv::grouped_heads(group, head_dim) * head_dim / 4 / 8;
        REQUIRE(counters.bank_conflicts() <= (head_dim == 80 ? num_adds / 4 : 0));
      }
}

TEST_CASE("grouped: step 5 reads as many times as much as the group has heads",
          "[kernels][grouped]") {
  const kv::SequenceRows rows[] = {{0, 0, 1, 1000}};
  const AttentionShape shape{{8, 2, 64}, DType::bf16, 0.125f, true};
  const auto split = kv::split_kv_traffic(shape, rows, false, kv::plan_split(8, true, rows, {8}));
  const auto once = kv::grouped_traffic(shape, rows, false, kv::plan_split(2, true, rows, {8}));
  REQUIRE(once.k == 2 * 1000 * 64 * 2);
  REQUIRE(split.k == 4 * once.k);
}

TEST_CASE("grouped: only parts need working memory", "[kernels][grouped]") {
  const Lengths lengths[] = {{1, 100}, {1, 20}};
  const AttentionProblem p = random_problem(grouped_shape(32, DType::f32, true), lengths, 14);
  kv::Device& device = kv::device(Backend::emulated);
  const kv::AttentionPlan whole(device, kStep, p.shape, p.sequences);
  REQUIRE(whole.workspace_bytes() == 0);
  REQUIRE(whole.split_items().size() == 2 * 2);
  const kv::AttentionPlan split(device, kStep, p.shape, p.sequences, {8, 25});
  REQUIRE(split.split_items().size() == (4 + 1) * 2);
  REQUIRE(split.workspace_bytes() == 4 * 4 * (32 + 1) * 4);  // parts, heads, floats
}

TEST_CASE("grouped: with fixed_chunk the bits do not depend on the batch", "[kernels][grouped]") {
  const Lengths lengths[] = {{1, 150}, {1, 0}, {2, 64}, {1, 7}, {1, 601}};
  const AttentionProblem p = random_problem(grouped_shape(128, DType::f16, true), lengths, 15);
  const AttentionResult together = run(p, kStep, Backend::emulated, true, {8, 64});
  for (int b = 0; b < 5; ++b)
    for (const int num_slots : {1, 264}) {
      const AttentionProblem one = alone(p, b);
      const AttentionResult solo = run(one, kStep, Backend::emulated, true, {num_slots, 64});
      REQUIRE(out_of(one, solo, 0) == out_of(p, together, b));
    }
}

TEST_CASE("grouped: a GPU before 8.0 gets no bf16; a scale that is not positive is refused",
          "[kernels][grouped]") {
  OldDevice old;
  const kv::SequenceRows rows[] = {{0, 0, 1, 1}};
  const auto plan = [&](DType dtype, int head_dim) {
    kv::AttentionPlan(old, kStep, grouped_shape(head_dim, dtype, true), rows);
  };
  REQUIRE_NOTHROW(plan(DType::f16, 128));
  REQUIRE_NOTHROW(plan(DType::f16, 256));
  REQUIRE_NOTHROW(plan(DType::f32, 256));
  REQUIRE_THROWS_AS(plan(DType::bf16, 64), kv::InputError);
  const Lengths lengths[] = {{1, 1}};
  for (const float scale : {0.0f, -1.0f, std::numeric_limits<float>::quiet_NaN()})
    REQUIRE_THROWS_AS(run(random_problem({{1, 1, 32}, DType::f16, scale, true}, lengths, 1), kStep,
                          Backend::emulated),
                      std::invalid_argument);
}

TEST_CASE("grouped: B1: parts and warps without a score merge to 0 and -inf, or are neutral",
          "[kernels][grouped]") {
  for (const int chunk : {0, 1}) {
    require_result({-kInfinity, -kInfinity}, {5, 6}, chunk, 0.0f, -kInfinity, 0.0f);
    require_result({-kInfinity, 1.0f}, {5, 3}, chunk, 3.0f, 1.0f, 1e-6f);
    require_result({1.0f, -kInfinity}, {3, 5}, chunk, 3.0f, 1.0f, 1e-6f);
  }
}

TEST_CASE("grouped: B2: scores below any stand-in for -inf keep their weights",
          "[kernels][grouped]") {
  for (const int chunk : {0, 1}) {
    const AttentionProblem p = given_scores(DType::f32, {-60000.0f, -60001.0f}, {1, 2});
    const AttentionResult result = run(p, kStep, Backend::checked, true, {8, chunk});
    // fp32 holds these scores to 0.004, in units of log2(e) again.
    for (const float x : result.out) REQUIRE(std::fabs(x - 1.268941f) <= 0.006f);
    for (const float x : result.lse) REQUIRE(std::fabs(x - -59999.686738f) <= 0.006f);
  }
}

TEST_CASE("grouped: B4: parts merge by their natural log-sum-exp", "[kernels][grouped]") {
  for (const int chunk : {0, 1}) require_result({0, 1}, {1, 3}, chunk, 2.462117f, 1.313262f, 2e-6f);
}

TEST_CASE("grouped: B5: a sequence without keys gives 0 and -inf, alone and in a batch",
          "[kernels][grouped]") {
  const Lengths batches[][2] = {{{1, 0}, {1, 0}}, {{1, 0}, {1, 90}}, {{1, 90}, {1, 0}}};
  for (const DType dtype : kFormats)
    for (const auto& lengths : batches)
      for (const Backend backend : kBackends) {
        const AttentionProblem p = random_problem(grouped_shape(32, dtype, true), lengths, 16);
        const AttentionResult result = run(p, kStep, backend, true, {8, 30});
        require_oracle(p, result, looseness(dtype));
        for (int b = 0; b < 2; ++b) {
          if (lengths[b].kv_len > 0) continue;
          for (const float x : out_of(p, result, b)) REQUIRE(x == 0.0f);
          for (int h = 0; h < 4; ++h)
            REQUIRE(result.lse[p.sequences[b].q_begin * 4 + h] == -kInfinity);
        }
      }
}

TEST_CASE("grouped: B7: two sequences in two parts each, lse not asked for, equal their solo runs",
          "[kernels][grouped]") {
  const Lengths lengths[] = {{1, 60}, {1, 44}};
  for (const DType dtype : {DType::f32, DType::f16}) {
    const AttentionProblem p = random_problem(grouped_shape(64, dtype, true), lengths, 17);
    for (const Backend backend : kBackends) {
      const AttentionResult together = run(p, kStep, backend, false, {8, 32});
      require_oracle(p, together, looseness(dtype), false);
      REQUIRE(out_of(p, together, 0) != out_of(p, together, 1));
      for (int b = 0; b < 2; ++b) {
        const AttentionProblem one = alone(p, b);
        REQUIRE(out_of(one, run(one, kStep, backend, false, {8, 32}), 0) == out_of(p, together, b));
      }
    }
  }
}

TEST_CASE("grouped: B9: exponentials are taken after the maximum is subtracted",
          "[kernels][grouped]") {
  for (const int chunk : {0, 1}) {
    require_result({100.0f, 0.0f}, {1, 2}, chunk, 1.0f, 100.0f, 2e-5f);
    require_result({0.0f, 100.0f}, {1, 2}, chunk, 2.0f, 100.0f, 2e-5f);
  }
}

TEST_CASE("grouped: C1: KV heads are repeated, not tiled", "[kernels][grouped]") {
  for (const DType dtype : kFormats) {
    AttentionProblem p = zero_problem({{4, 2, 32}, dtype, 1.0f, true}, {1, 50});
    for (std::size_t i = 0; i < p.v.size(); ++i) p.v[i] = i / 32 % 2 == 0 ? 1.0f : 2.0f;
    for (const int chunk : {0, 20}) {
      const AttentionResult result = run(p, kStep, Backend::checked, true, {8, chunk});
      const float expected[] = {1, 1, 2, 2};
      for (int h = 0; h < 4; ++h) REQUIRE(std::fabs(result.out[h * 32] - expected[h]) <= 1e-6f);
    }
  }
}

TEST_CASE("grouped: C2: query heads divide by the size of the group", "[kernels][grouped]") {
  const int pairs[][2] = {{12, 12}, {32, 8}, {28, 4}, {64, 2}, {40, 1}, {96, 2}};
  for (const DType dtype : kFormats)
    for (const auto& [num_q_heads, num_kv_heads] : pairs) {
      AttentionProblem p =
          zero_problem({{num_q_heads, num_kv_heads, 32}, dtype, 1.0f, true}, {1, 3});
      for (std::size_t i = 0; i < p.v.size(); ++i)
        p.v[i] = static_cast<float>(i / 32 % num_kv_heads);
      const AttentionResult result = run(p, kStep, Backend::emulated, true, {8, 2});
      for (int h = 0; h < num_q_heads; ++h)
        REQUIRE(std::fabs(result.out[h * 32] - h / (num_q_heads / num_kv_heads)) <= 1e-5f);
    }
}

TEST_CASE("grouped: C5: as many sequences as KV heads, each row equals its solo run",
          "[kernels][grouped]") {
  const Lengths lengths[] = {{1, 3}, {1, 5}};
  for (const DType dtype : kFormats) {
    const AttentionProblem p = random_problem(grouped_shape(32, dtype, true), lengths, 18);
    const AttentionResult together = run(p, kStep, Backend::emulated);
    for (int b = 0; b < 2; ++b) {
      const AttentionProblem one = alone(p, b);
      REQUIRE(out_of(one, run(one, kStep, Backend::emulated), 0) == out_of(p, together, b));
    }
  }
}
