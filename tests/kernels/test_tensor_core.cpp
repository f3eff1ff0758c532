// Step 4 in particular: its rounding, its masked tiles, its shared memory, what it refuses. The
// cases that every step shares are in test_ladder.cpp.
#include <catch2/catch_test_macros.hpp>
#include <cstdio>

#include "attention/tile_shape.hpp"
#include "attention/traffic.hpp"
#include "ladder_steps.hpp"
#include "old_device.hpp"

using namespace kv_test;
using kv::AttentionStep;
using kv::Backend;
using kv::DType;
using kv::emulator::Traffic;

namespace {

constexpr DType k16Bit[] = {DType::f16, DType::bf16};

// One, a tile of an mma (16), of a warp, of a CTA (64) and of two, their neighbours, primes; more
// queries than keys and the other way.
const Lengths kLengths[] = {{1, 1},    {1, 15},  {15, 1},   {16, 16},   {17, 17},   {63, 63},
                            {64, 64},  {65, 65}, {64, 63},  {127, 127}, {129, 129}, {1, 129},
                            {128, 64}, {97, 31}, {13, 193}, {2, 257},   {0, 5},     {5, 0}};

Looseness looseness(DType dtype) { return dtype == DType::f16 ? kRoundedToF16 : kRoundedToBf16; }

// The bound for queries that are exact in the format: only the weights are rounded.
Looseness exact_queries(DType dtype) {
  Looseness bound = looseness(dtype);
  bound.q_error = 0.0;
  return bound;
}

void round_queries(AttentionProblem& p) {
  for (float& x : p.q) x = rounded(x, p.shape.kv_dtype);
}

AttentionResult run_step4(const AttentionProblem& p, Backend backend = Backend::emulated) {
  return run(p, AttentionStep::tensor_core, backend);
}

// Largest |out - exact| and |lse - exact| over a batch, in units of what `unit` allows.
struct Ratios {
  double out = 0.0;
  double lse = 0.0;
};

Ratios ratios(const AttentionProblem& p, const AttentionResult& result, const Looseness& unit) {
  const kv::HeadConfig& heads = p.shape.heads;
  Ratios worst;
  for (const kv::SequenceRows& rows : p.sequences) {
    const auto exact = kv::reference_attention(
        p.q.data() + rows.q_begin * heads.q_dim(), p.k.data() + rows.kv_begin * heads.kv_dim(),
        p.v.data() + rows.kv_begin * heads.kv_dim(), heads, rows.q_len, rows.kv_len, p.shape.scale,
        p.shape.causal);
    for (std::size_t i = 0; i < exact.out.size(); ++i)
      worst.out = std::max(worst.out,
                           std::fabs(result.out[rows.q_begin * heads.q_dim() + i] - exact.out[i]) /
                               unit.out_atol(exact, rows.kv_len));
    for (std::size_t i = 0; i < exact.lse.size(); ++i)
      if (!std::isinf(exact.lse[i]))
        worst.lse = std::max(
            worst.lse, std::fabs(result.lse[rows.q_begin * heads.num_q_heads + i] - exact.lse[i]) /
                           unit.lse_atol(exact));
  }
  return worst;
}

}  // namespace

TEST_CASE("tensor cores: every length in every shape is within the bound", "[kernels][big]") {
  for (const DType dtype : k16Bit)
    for (const int head_dim : kv::kHeadDims)
      for (const bool causal : {true, false}) {
        INFO(kv::info(dtype).name << ", head_dim " << head_dim << ", causal " << causal);
        AttentionProblem p =
            random_problem(grouped_shape(head_dim, dtype, causal), kLengths, head_dim);
        round_queries(p);
        require_oracle(p, run_step4(p), exact_queries(dtype));
      }
}

TEST_CASE("tensor cores: rounded queries stay within the bound at any size of the scores",
          "[kernels]") {
  const Lengths lengths[] = {{70, 131}, {3, 64}, {65, 1}};
  for (const DType dtype : k16Bit)
    for (const float spread : {0.01f, 1.0f, 30.0f}) {
      INFO(kv::info(dtype).name << ", q of size " << spread);
      const AttentionProblem p =
          random_problem(grouped_shape(64, dtype, true), lengths, 21, spread);
      require_oracle(p, run_step4(p), looseness(dtype));
    }
}

TEST_CASE("tensor cores agree with step 3 on the same rounded numbers", "[kernels]") {
  const Lengths lengths[] = {{67, 131}, {129, 65}};
  for (const DType dtype : k16Bit)
    for (const int head_dim : {80, 128}) {
      INFO(kv::info(dtype).name << ", head_dim " << head_dim);
      AttentionProblem p = random_problem(grouped_shape(head_dim, dtype, true), lengths, 22);
      round_queries(p);
      const AttentionResult tiled = run(p, AttentionStep::tiled, Backend::emulated);
      const AttentionResult result = run_step4(p);
      const float weight_error = static_cast<float>(looseness(dtype).weight_error);
      for (const kv::SequenceRows& rows : p.sequences) {
        const std::int64_t begin = rows.q_begin * p.shape.heads.q_dim();
        const std::int64_t end = begin + rows.q_len * p.shape.heads.q_dim();
        // Values are below 5, and a weighted mean of them moves by less than their rounded weights.
        for (std::int64_t i = begin; i < end; ++i)
          REQUIRE(std::fabs(result.out[i] - tiled.out[i]) <= 5.0f * weight_error);
        for (std::int64_t i = rows.q_begin * 4; i < (rows.q_begin + rows.q_len) * 4; ++i)
          REQUIRE(
              (result.lse[i] == tiled.lse[i] || std::fabs(result.lse[i] - tiled.lse[i]) <= 1e-4f));
      }
    }
}

// With q = 0 all keys weigh the same: lse = log(visible keys), which is fp32 and knows of no 16
// bits. Values are one-hot and huge, so a key too many or too few is seen in out as well.
TEST_CASE("tensor cores: the mask is exact to a key", "[kernels]") {
  constexpr float kHuge = 16384.0f;
  for (const int head_dim : {64, 256})
    for (const bool causal : {true, false})
      for (const Lengths lengths : {Lengths{66, 66}, {130, 131}, {65, 129}, {129, 65}, {1, 64}}) {
        INFO("head_dim " << head_dim << ", causal " << causal << ", q_len " << lengths.q_len
                         << ", kv_len " << lengths.kv_len);
        AttentionProblem p = zero_problem({{1, 1, head_dim}, DType::bf16, 1.0f, causal}, lengths);
        for (int j = 0; j < lengths.kv_len; ++j) p.v[j * head_dim + j % head_dim] = kHuge;
        const AttentionResult result = run_step4(p);
        for (int t = 0; t < lengths.q_len; ++t) {
          const int visible = kv::visible_keys(t, p.sequences[0], causal);
          if (visible == 0) {
            REQUIRE(std::isinf(result.lse[t]));
          } else {
            REQUIRE(std::fabs(result.lse[t] - std::log(visible)) <= 1e-5);
          }
          for (int d = 0; d < head_dim; ++d) {
            INFO("row " << t << ", element " << d);
            const int count = d < visible ? (visible - 1 - d) / head_dim + 1 : 0;
            const float expected = count == 0 ? 0.0f : kHuge * count / visible;
            REQUIRE(std::fabs(result.out[t * head_dim + d] - expected) <= 1e-5f * expected);
          }
        }
      }
}

TEST_CASE("tensor cores: keys that no row of a CTA sees are not read", "[kernels]") {
  // Causal, 65 rows: rows 0 to 63 are one CTA, whose last row sees 64 keys.
  for (const DType dtype : k16Bit) {
    const Lengths lengths[] = {{65, 65}};
    AttentionProblem p = random_problem(grouped_shape(64, dtype, true), lengths, 23);
    const AttentionResult clean = run_step4(p);
    const std::int64_t last = (p.sequences[0].kv_begin + 64) * 128;
    for (std::int64_t i = last; i < last + 128; ++i)
      p.k[i] = p.v[i] = std::numeric_limits<float>::quiet_NaN();
    const AttentionResult result = run_step4(p);
    const std::int64_t begin = p.sequences[0].q_begin * 256;
    for (std::int64_t i = begin; i < begin + 65 * 256; ++i) {
      if (i < begin + 64 * 256) {
        REQUIRE(result.out[i] == clean.out[i]);
      } else {
        REQUIRE(std::isnan(result.out[i]));
      }
    }
  }
}

TEST_CASE("tensor cores: several tiles are free of faults in every order of threads", "[kernels]") {
  for (const auto& [dtype, head_dim, causal] :
       {std::tuple{DType::bf16, 64, true}, {DType::f16, 80, false}, {DType::bf16, 256, true}}) {
    INFO(kv::info(dtype).name << ", head_dim " << head_dim);
    const Lengths lengths[] = {{17, 193}, {66, 3}};
    AttentionProblem p =
        random_problem({{2, 1, head_dim}, dtype, usual_scale(head_dim), causal}, lengths, 24);
    round_queries(p);
    in_every_order(
        [&] { require_oracle(p, run_step4(p, Backend::checked), exact_queries(dtype)); });
  }
}

TEST_CASE("tensor cores: shared memory has no bank conflicts, global memory the predicted traffic",
          "[kernels]") {
  const Lengths lengths[] = {{70, 131}, {3, 0}, {0, 3}, {5, 65}};
  for (const int head_dim : kv::kHeadDims)
    for (const bool with_lse : {true, false}) {
      INFO("head_dim " << head_dim);
      const AttentionProblem p =
          random_problem({{3, 1, head_dim}, DType::f16, usual_scale(head_dim), true}, lengths, 25);
      run(p, AttentionStep::tensor_core, Backend::checked, with_lse);
      const kv::emulator::Counters& counters = kv::emulator::last_launch().counters;
      const kv::AttentionTraffic expected = kv::tensor_core_traffic(p.shape, p.sequences, with_lse);
      REQUIRE(counters.bank_conflicts() == 0);
      REQUIRE(counters.of(Traffic::shared_load).requests > 0);
      REQUIRE(kv::counted_bytes(counters) == expected.total());
      REQUIRE(32 * counters.of(Traffic::global_store).units ==
              static_cast<std::uint64_t>(expected.stores()));
      REQUIRE(counters.sectors_per_request(Traffic::global_store) <= 8.0);
    }
}

TEST_CASE("tensor cores: a GPU before 8.0 gets fp16 of up to 128 elements and nothing else",
          "[kernels]") {
  OldDevice old;
  const kv::SequenceRows rows[] = {{0, 0, 1, 1}};
  const auto plan = [&](DType dtype, int head_dim) {
    kv::AttentionPlan(old, AttentionStep::tensor_core, grouped_shape(head_dim, dtype, true), rows);
  };
  REQUIRE_NOTHROW(plan(DType::f16, 128));
  REQUIRE_THROWS_AS(plan(DType::bf16, 64), kv::InputError);
  REQUIRE_THROWS_AS(plan(DType::f16, 256), kv::InputError);
  REQUIRE_THROWS_AS(plan(DType::f32, 64), kv::InputError);
}

TEST_CASE("tensor cores: a scale that is not positive is refused", "[kernels]") {
  const Lengths lengths[] = {{1, 1}};
  for (const float scale : {0.0f, -1.0f, std::numeric_limits<float>::quiet_NaN()}) {
    const AttentionProblem p = random_problem({{1, 1, 32}, DType::f16, scale, true}, lengths, 1);
    REQUIRE_THROWS_AS(run_step4(p), std::invalid_argument);
  }
}

// What docs/tolerances.md states: test_tensor_core "[measure]".
TEST_CASE("tensor cores: largest error as a share of the bound", "[.measure]") {
  constexpr unsigned kSeeds = 20;
  for (const DType dtype : k16Bit)
    for (const bool exact : {true, false}) {
      Ratios worst;
      for (unsigned seed = 1; seed <= kSeeds; ++seed) {
        const int head_dim = kv::kHeadDims[seed % std::size(kv::kHeadDims)];
        const float spread = seed % 3 == 0 ? 0.3f : seed % 3 == 1 ? 1.0f : 8.0f;
        AttentionProblem p =
            random_problem(grouped_shape(head_dim, dtype, seed % 2 == 0), kLengths, seed, spread);
        if (exact) round_queries(p);
        const Ratios found =
            ratios(p, run_step4(p), exact ? exact_queries(dtype) : looseness(dtype));
        worst.out = std::max(worst.out, found.out);
        worst.lse = std::max(worst.lse, found.lse);
      }
      std::printf("step 4, %s, %s queries: largest error of out %.3f, of lse %.3f of the bound\n",
                  kv::info(dtype).name.data(), exact ? "16-bit" : "fp32", worst.out, worst.lse);
    }
}
