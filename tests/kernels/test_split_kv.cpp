// Step 5: decode whose keys are split over CTAs and merged.
#include <catch2/catch_test_macros.hpp>
#include <string>

#include "attention/traffic.hpp"
#include "ladder_steps.hpp"

using namespace kv_test;
using kv::AttentionShape;
using kv::AttentionStep;
using kv::Backend;
using kv::DType;
using kv::SplitOptions;

namespace {

constexpr AttentionStep kStep = AttentionStep::split_kv;
constexpr Backend kBackends[] = {Backend::emulated, Backend::checked};
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Within the bound of fp32 arithmetic, which K and V in 16 bits keep to: they are widened exactly.
void require_right(const AttentionProblem& p, Backend backend, const SplitOptions& split = {}) {
  INFO(kv::name(backend) << ", " << kv::info(p.shape.kv_dtype).name << ", head_dim "
                         << p.shape.heads.head_dim << ", fixed_chunk " << split.fixed_chunk);
  require_oracle(p, run(p, kStep, backend, true, split));
}

// One query of one head, head_dim 32, whose scores and values are given: q and k are 0 but for the
// first element, and each value fills its row.
AttentionProblem given_scores(std::vector<float> scores, std::vector<float> values) {
  AttentionProblem p =
      zero_problem({{1, 1, 32}, DType::f32, 1.0f, true}, {1, static_cast<int>(scores.size())});
  p.q[0] = 1.0f;
  for (std::size_t j = 0; j < scores.size(); ++j) {
    p.k[j * 32] = scores[j];
    for (int d = 0; d < 32; ++d) p.v[j * 32 + d] = values[j];
  }
  return p;
}

void require_result(const AttentionProblem& p, int fixed_chunk, float out, float lse,
                    float tolerance) {
  for (const Backend backend : kBackends) {
    const AttentionResult result = run(p, kStep, backend, true, {8, fixed_chunk});
    INFO(kv::name(backend) << ", fixed_chunk " << fixed_chunk << ": out " << result.out[0]
                           << ", lse " << result.lse[0]);
    for (const float x : result.out) REQUIRE(std::fabs(x - out) <= tolerance);
    if (std::isinf(lse))
      REQUIRE(result.lse[0] == lse);
    else
      REQUIRE(std::fabs(result.lse[0] - lse) <= tolerance * std::max(1.0f, std::fabs(lse)));
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

// The launches of the kernels whose name has `part` in it, since the last reset.
std::uint64_t num_launches(const std::string& part) {
  std::uint64_t count = 0;
  for (const auto& [kernel, counters] : kv::emulator::counters_by_kernel())
    if (kernel.find(part) != std::string::npos) count += counters.launches;
  return count;
}

}  // namespace

TEST_CASE("split_kv: every head size and format agrees with the oracle",
          "[kernels][big][split_kv]") {
  // Chunks of 40: lengths around one, and several, of them; 0 and 1; more than one step of a CTA.
  const Lengths lengths[] = {{1, 0}, {1, 1}, {1, 39}, {1, 40}, {1, 41}, {1, 127}, {1, 263}};
  const Lengths few[] = {{1, 0}, {1, 41}, {1, 83}};
  for (const DType dtype : kFormats)
    for (const int head_dim : kv::kHeadDims) {
      const AttentionShape shape{{2, 1, head_dim}, dtype, usual_scale(head_dim), true};
      const AttentionProblem p = random_problem(shape, lengths, 1);
      for (const int chunk : {0, 40}) require_right(p, Backend::emulated, {8, chunk});
      require_right(random_problem(shape, few, 2), Backend::checked, {8, 40});
    }
}

TEST_CASE("split_kv: any order of threads gives the same bits, without a report",
          "[kernels][big][split_kv]") {
  const Lengths lengths[] = {{1, 67}, {2, 30}, {1, 0}};
  for (const Backend backend : kBackends)
    for (const int head_dim : {80, 128}) {
      const AttentionProblem p =
          random_problem(grouped_shape(head_dim, DType::bf16, true), lengths, 3);
      const AttentionResult first = run(p, kStep, backend, true, {8, 16});
      in_every_order([&] {
        const AttentionResult again = run(p, kStep, backend, true, {8, 16});
        require_oracle(p, again);
        for (int b = 0; b < 3; ++b) REQUIRE(out_of(p, again, b) == out_of(p, first, b));
      });
    }
}

TEST_CASE("split_kv: 1 to 17 parts agree with the oracle", "[kernels][split_kv]") {
  // More parts than the merge takes at a time: 4 at head_dim 256, 12 at 80.
  for (const int head_dim : {80, 256})
    for (int num_parts = 1; num_parts <= 17; ++num_parts) {
      INFO(num_parts << " parts");
      const Lengths lengths[] = {{1, 11 * num_parts - 4}};
      const AttentionProblem p =
          random_problem({{2, 1, head_dim}, DType::f32, usual_scale(head_dim), true}, lengths, 4);
      require_right(p, Backend::emulated, {8, 11});
      if (num_parts % 4 == 1) require_right(p, Backend::checked, {8, 11});
    }
}

TEST_CASE("split_kv: thousands of keys, cut as the planner likes", "[kernels][split_kv]") {
  const Lengths lengths[] = {{1, 5003}, {1, 700}, {1, 1}};
  for (const DType dtype : kFormats)
    for (const int num_slots : {0, 40})
      require_right(random_problem({{2, 2, 128}, dtype, usual_scale(128), true}, lengths, 5),
                    Backend::emulated, {num_slots, 0});
}

TEST_CASE("split_kv: groups of 1, 2, 3 and 8 query heads read their KV head",
          "[kernels][split_kv]") {
  const Lengths lengths[] = {{1, 50}, {1, 13}};
  for (const int group : {1, 2, 3, 8})
    for (const Backend backend : kBackends)
      require_right(
          random_problem({{2 * group, 2, 32}, DType::f32, usual_scale(32), true}, lengths, 6),
          backend, {8, 17});
}

TEST_CASE("split_kv: several query rows, and more rows than keys", "[kernels][big][split_kv]") {
  const Lengths lengths[] = {{2, 150}, {5, 50}, {1, 12}, {0, 20}, {7, 3}, {5, 0}, {3, 3}};
  for (const bool causal : {true, false}) {
    const AttentionShape shape{{2, 1, 64}, DType::f32, usual_scale(64), causal};
    const AttentionProblem p = random_problem(shape, lengths, 7);
    for (const int chunk : {0, 1, 16, 35}) require_right(p, Backend::emulated, {8, chunk});
    require_right(p, Backend::checked, {8, 16});
  }
}

TEST_CASE("split_kv: scores far apart need the running maximum", "[kernels][split_kv]") {
  const Lengths lengths[] = {{1, 301}};
  for (const float spread : {10.0f, 200.0f})
    for (const int chunk : {0, 50})
      require_right(random_problem(grouped_shape(128, DType::f32, true), lengths, 8, spread),
                    Backend::emulated, {8, chunk});
}

TEST_CASE("split_kv: a plan with nothing to merge launches no merge", "[kernels][split_kv]") {
  const Lengths lengths[] = {{1, 20}, {1, 0}};
  const AttentionProblem p = random_problem(grouped_shape(32, DType::f32, true), lengths, 9);
  kv::emulator::reset_counters();
  require_right(p, Backend::checked);
  REQUIRE(num_launches("split_kv_kernel") == 1);
  REQUIRE(num_launches("merge_kernel") == 0);
  require_right(p, Backend::checked, {8, 10});
  REQUIRE(num_launches("merge_kernel") == 1);
}

TEST_CASE("split_kv: only parts need working memory", "[kernels][split_kv]") {
  const Lengths lengths[] = {{1, 100}, {1, 20}};
  const AttentionProblem p = random_problem(grouped_shape(32, DType::f32, true), lengths, 9);
  kv::Device& device = kv::device(Backend::emulated);
  const kv::AttentionPlan whole(device, kStep, p.shape, p.sequences);
  REQUIRE(whole.workspace_bytes() == 0);
  REQUIRE(whole.split_items().size() == 2 * 4);
  const kv::AttentionPlan split(device, kStep, p.shape, p.sequences, {8, 25});
  REQUIRE(split.split_items().size() == (4 + 1) * 4);
  REQUIRE(split.workspace_bytes() == 4 * 4 * (32 + 1) * 4);  // parts, heads, floats
}

TEST_CASE("split_kv: with fixed_chunk the bits do not depend on the batch", "[kernels][split_kv]") {
  const Lengths lengths[] = {{1, 150}, {1, 0}, {2, 64}, {1, 7}, {1, 601}};
  const AttentionProblem p = random_problem(grouped_shape(128, DType::f16, true), lengths, 10);
  const AttentionResult together = run(p, kStep, Backend::emulated, true, {8, 64});
  for (int b = 0; b < 5; ++b)
    for (const int num_slots : {1, 264}) {
      const AttentionProblem one = alone(p, b);
      const AttentionResult solo = run(one, kStep, Backend::emulated, true, {num_slots, 64});
      REQUIRE(out_of(one, solo, 0) == out_of(p, together, b));
    }
}

TEST_CASE("split_kv: the steps before give the same within the arithmetic", "[kernels][split_kv]") {
  const Lengths lengths[] = {{1, 129}, {3, 40}};
  const AttentionProblem p = random_problem(grouped_shape(64, DType::bf16, true), lengths, 11);
  const AttentionResult split = run(p, kStep, Backend::emulated, true, {8, 32});
  for (const AttentionStep step : {AttentionStep::online, AttentionStep::tiled}) {
    const AttentionResult before = run(p, step, Backend::emulated);
    for (std::size_t i = 0; i < split.out.size(); ++i) {
      if (std::isnan(split.out[i])) continue;                       // between the sequences
      REQUIRE(std::fabs(split.out[i] - before.out[i]) <= 1.5e-5f);  // 8 eps * score mass 5 * |v| 3
    }
  }
}

TEST_CASE("split_kv: each byte of K and V is read once per query head, and all else as predicted",
          "[kernels][big][split_kv]") {
  const Lengths lengths[] = {{1, 0}, {1, 67}, {1, 130}, {2, 21}};
  for (const DType dtype : kFormats)
    for (const int head_dim : kv::kHeadDims)
      for (const bool with_lse : {true, false}) {
        if (!with_lse && head_dim != 96) continue;
        const AttentionShape shape{{3, 1, head_dim}, dtype, usual_scale(head_dim), true};
        const AttentionProblem p = random_problem(shape, lengths, 12);
        const SplitOptions split{8, with_lse ? 20 : 0};
        kv::emulator::reset_counters();
        run(p, kStep, Backend::checked, with_lse, split);
        kv::emulator::Counters sum;
        for (const auto& [kernel, counters] : kv::emulator::counters_by_kernel()) sum.add(counters);

        const kv::SplitPlan plan = kv::plan_split(3, true, p.sequences, split);
        const kv::AttentionTraffic expected =
            kv::predicted_traffic(kStep, shape, p.sequences, with_lse, plan);
        INFO(kv::info(dtype).name << ", head_dim " << head_dim << ", lse " << with_lse);
        REQUIRE(kv::counted_bytes(sum) == expected.total());
        REQUIRE(32 * sum.of(kv::emulator::Traffic::global_store).units ==
                static_cast<std::uint64_t>(expected.stores()));
        // 0, 67 and 130 keys, and two rows that see 20 and 21.
        const std::int64_t element_bytes = kv::info(dtype).block_bytes;
        REQUIRE(expected.k == 3 * (67 + 130 + 20 + 21) * head_dim * element_bytes);
        REQUIRE(expected.v == expected.k);
      }
}

TEST_CASE("split_kv: the combination of the warps reads shared memory without bank conflicts",
          "[kernels][split_kv]") {
  const Lengths lengths[] = {{1, 100}};
  const AttentionProblem p = random_problem(grouped_shape(128, DType::f16, true), lengths, 13);
  run(p, kStep, Backend::checked);
  const kv::emulator::Counters& counters = kv::emulator::last_launch().counters;
  REQUIRE(counters.of(kv::emulator::Traffic::shared_load).units ==
          counters.of(kv::emulator::Traffic::shared_load).ideal);
}

TEST_CASE("B1: parts that are all empty merge to 0 and -inf, and an empty part is neutral",
          "[kernels][split_kv]") {
  // A score of -inf leaves a part as empty as one without keys.
  require_result(given_scores({-kInfinity, -kInfinity}, {5, 6}), 1, 0.0f, -kInfinity, 0.0f);
  require_result(given_scores({-kInfinity, 1.0f}, {5, 3}), 1, 3.0f, 1.0f, 0.0f);
  require_result(given_scores({1.0f, -kInfinity}, {3, 5}), 1, 3.0f, 1.0f, 0.0f);
  // The same inside one part.
  require_result(given_scores({-kInfinity, -kInfinity}, {5, 6}), 0, 0.0f, -kInfinity, 0.0f);
  require_result(given_scores({1.0f, -kInfinity}, {3, 5}), 0, 3.0f, 1.0f, 0.0f);
}

TEST_CASE("B2: scores below any stand-in for -inf keep their weights", "[kernels][split_kv]") {
  for (const int chunk : {0, 1})
    require_result(given_scores({-60000.0f, -60001.0f}, {1, 2}), chunk, 1.268941f, -59999.686738f,
                   // fp32 holds these scores to 0.004, in units of log2(e) again
                   0.006f);
}

TEST_CASE("B4: parts merge by their natural log-sum-exp", "[kernels][split_kv]") {
  require_result(given_scores({0.0f, 1.0f}, {1, 3}), 1, 2.462117f, 1.313262f, 2e-6f);
  require_result(given_scores({0.0f, 1.0f}, {1, 3}), 0, 2.462117f, 1.313262f, 2e-6f);
}

TEST_CASE("B5: a sequence without keys gives 0 and -inf, alone and in a batch",
          "[kernels][split_kv]") {
  const Lengths batches[][2] = {{{1, 0}, {1, 0}}, {{1, 0}, {1, 90}}, {{1, 90}, {1, 0}}};
  for (const auto& lengths : batches)
    for (const Backend backend : kBackends) {
      const AttentionProblem p = random_problem(grouped_shape(32, DType::f32, true), lengths, 14);
      const AttentionResult result = run(p, kStep, backend, true, {8, 30});
      require_oracle(p, result);
      for (int b = 0; b < 2; ++b) {
        if (lengths[b].kv_len > 0) continue;
        for (const float x : out_of(p, result, b)) REQUIRE(x == 0.0f);
        REQUIRE(result.lse[p.sequences[b].q_begin * 4] == -kInfinity);
      }
    }
}

TEST_CASE("B7: two sequences in two parts each, lse not asked for, equal their solo runs",
          "[kernels][split_kv]") {
  const Lengths lengths[] = {{1, 60}, {1, 44}};
  const AttentionProblem p = random_problem(grouped_shape(64, DType::f16, true), lengths, 15);
  for (const Backend backend : kBackends) {
    const AttentionResult together = run(p, kStep, backend, false, {8, 32});
    require_oracle(p, together, {}, false);
    REQUIRE(out_of(p, together, 0) != out_of(p, together, 1));
    for (int b = 0; b < 2; ++b) {
      const AttentionProblem one = alone(p, b);
      REQUIRE(out_of(one, run(one, kStep, backend, false, {8, 32}), 0) == out_of(p, together, b));
    }
  }
}

TEST_CASE("B9: exponentials are taken after the maximum is subtracted", "[kernels][split_kv]") {
  for (const int chunk : {0, 1}) {
    require_result(given_scores({100.0f, 0.0f}, {1, 2}), chunk, 1.0f, 100.0f, 1e-6f);
    require_result(given_scores({10100.0f, 10000.0f}, {1, 2}), chunk, 1.0f, 10100.0f, 1e-6f);
    require_result(given_scores({0.0f, 100.0f}, {1, 2}), chunk, 2.0f, 100.0f, 1e-6f);
  }
}

TEST_CASE("C1: KV heads are repeated, not tiled", "[kernels][split_kv]") {
  AttentionProblem p = zero_problem({{4, 2, 32}, DType::f32, 1.0f, true}, {1, 50});
  for (std::size_t i = 0; i < p.v.size(); ++i) p.v[i] = i / 32 % 2 == 0 ? 1.0f : 2.0f;
  for (const int chunk : {0, 20}) {
    const AttentionResult result = run(p, kStep, Backend::checked, true, {8, chunk});
    const float expected[] = {1, 1, 2, 2};
    for (int h = 0; h < 4; ++h) REQUIRE(std::fabs(result.out[h * 32] - expected[h]) <= 1e-6f);
  }
}

TEST_CASE("C2: query heads divide by the size of the group", "[kernels][split_kv]") {
  const int pairs[][2] = {{12, 12}, {32, 8}, {28, 4}};
  for (const auto& [num_q_heads, num_kv_heads] : pairs) {
    AttentionProblem p =
        zero_problem({{num_q_heads, num_kv_heads, 32}, DType::f32, 1.0f, true}, {1, 3});
    for (std::size_t i = 0; i < p.v.size(); ++i) p.v[i] = static_cast<float>(i / 32 % num_kv_heads);
    const AttentionResult result = run(p, kStep, Backend::emulated, true, {8, 2});
    for (int h = 0; h < num_q_heads; ++h)
      REQUIRE(std::fabs(result.out[h * 32] - h / (num_q_heads / num_kv_heads)) <= 1e-5f);
  }
}

TEST_CASE("split_kv: a NaN among the keys shows in the result", "[kernels][split_kv]") {
  AttentionProblem p = given_scores({0, 1, 2, 3}, {1, 2, 3, 4});
  p.k[32] = std::numeric_limits<float>::quiet_NaN();
  for (const int chunk : {0, 2})
    REQUIRE(std::isnan(run(p, kStep, Backend::emulated, true, {8, chunk}).out[0]));
}
