// Bytes of global memory by step: what the checked build counts is what the closed forms say.
#include <catch2/catch_test_macros.hpp>
#include <ostream>

#include "attention/tile_shape.hpp"
#include "attention/traffic.hpp"
#include "ladder_steps.hpp"

using namespace kv_test;
using kv::AttentionStep;
using kv::AttentionTraffic;
using kv::DType;
using kv::emulator::Counters;
using kv::emulator::Traffic;

namespace {

// The counters of all kernels of a step.
Counters count(const AttentionProblem& p, AttentionStep step, bool with_lse = true) {
  kv::emulator::reset_counters();
  run(p, step, kv::Backend::checked, with_lse);
  Counters sum;
  for (const auto& [kernel, counters] : kv::emulator::counters_by_kernel()) sum.add(counters);
  return sum;
}

AttentionTraffic predicted(const AttentionProblem& p, AttentionStep step, bool with_lse = true) {
  return kv::predicted_traffic(step, p.shape, p.sequences, with_lse);
}

// One sequence without gaps around it.
AttentionProblem one_sequence(const kv::AttentionShape& shape, Lengths lengths) {
  AttentionProblem p = zero_problem(shape, lengths);
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (auto* values : {&p.q, &p.k, &p.v})
    for (float& x : *values) x = rounded(normal(random), shape.kv_dtype);
  return p;
}

// The steps whose traffic is predicted here; step 5 needs its plan.
constexpr AttentionStep kRowSteps[] = {AttentionStep::two_pass, AttentionStep::online,
                                       AttentionStep::tiled};

}  // namespace

TEST_CASE("traffic: every count equals its closed form", "[kernels][big]") {
  const Lengths lengths[] = {{5, 9}, {0, 3}, {3, 0}, {1, 33}, {70, 37}, {9, 3}, {11, 75}};
  for (const AttentionStep step : kRowSteps)
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const int head_dim : {32, 80, 256})
        for (const bool causal : {true, false}) {
          // 3 query heads: neighbouring rows of lse share sectors, or do not.
          const kv::AttentionShape shape{{3, 1, head_dim}, dtype, usual_scale(head_dim), causal};
          const AttentionProblem p = random_problem(shape, lengths, 1);
          const bool with_lse = head_dim != 32;
          const Counters counters = count(p, step, with_lse);
          const AttentionTraffic expected = predicted(p, step, with_lse);
          INFO("step " << kv::name(step) << ", " << kv::info(dtype).name << ", head_dim "
                       << head_dim << ", causal " << causal);
          REQUIRE(kv::counted_bytes(counters) == expected.total());
          REQUIRE(32 * counters.of(Traffic::global_store).units ==
                  static_cast<std::uint64_t>(expected.stores()));
        }
}

TEST_CASE("traffic: what is left out is only the table of sequences", "[kernels]") {
  const AttentionProblem p = one_sequence({{1, 1, 32}, DType::f32, 1.0f, false}, {1, 32});
  for (const AttentionStep step : kRowSteps) {
    INFO("step " << kv::name(step));
    const Counters counters = count(p, step);
    const auto left_out =
        static_cast<std::int64_t>(counters.global_bytes()) - kv::counted_bytes(counters);
    // 4 warps a CTA, each 24 bytes in at most four loads of a sector; step 1 has two kernels.
    REQUIRE(left_out >= 4 * 32);
    REQUIRE(left_out <= 2 * 4 * 4 * 32);
  }
}

TEST_CASE("traffic: only the first step stores scores", "[kernels]") {
  const std::int64_t q_len = 16, kv_len = 64;
  const AttentionProblem p =
      one_sequence({{2, 1, 32}, DType::f32, usual_scale(32), false}, {int(q_len), int(kv_len)});
  const std::int64_t out_bytes = q_len * 2 * 32 * 4;
  const std::int64_t score_bytes = q_len * 2 * kv_len * 4;
  for (const AttentionStep step : kRowSteps) {
    INFO("step " << kv::name(step));
    const Counters counters = count(p, step, false);
    const auto stored = static_cast<std::int64_t>(counters.of(Traffic::global_store).bytes);
    REQUIRE(stored == out_bytes + (step == AttentionStep::two_pass ? score_bytes : 0));
  }
  const AttentionTraffic two_pass = predicted(p, AttentionStep::two_pass, false);
  REQUIRE(two_pass.scratch_written == score_bytes);
  REQUIRE(two_pass.scratch_read == 2 * score_bytes);
}

TEST_CASE("traffic: the tiled step reads K and V once per block of query rows", "[kernels]") {
  // Two blocks; the second has one row. All query heads read, whoever else reads the same KV head.
  const std::int64_t kv_len = 40, head_dim = 64, num_q_heads = 2;
  const int q_len = kv::tiled_rows(head_dim) + 1;
  for (const DType dtype : {DType::f32, DType::f16}) {
    const std::int64_t element = dtype == DType::f32 ? 4 : 2;
    const AttentionProblem p =
        one_sequence({{int(num_q_heads), 1, int(head_dim)}, dtype, usual_scale(head_dim), false},
                     {q_len, int(kv_len)});
    const AttentionTraffic bytes = predicted(p, AttentionStep::tiled, false);
    REQUIRE(bytes.k == 2 * num_q_heads * kv_len * head_dim * element);
    REQUIRE(bytes.v == bytes.k);
    REQUIRE(bytes.q == q_len * num_q_heads * head_dim * 4);
    REQUIRE(bytes.out == bytes.q);
    const Counters counters = count(p, AttentionStep::tiled, false);
    REQUIRE(kv::counted_bytes(counters) == bytes.k + bytes.v + bytes.q + bytes.out);
    // The step before reads them for each row.
    REQUIRE(predicted(p, AttentionStep::online, false).k ==
            q_len * num_q_heads * kv_len * head_dim * element);
  }
}

TEST_CASE("traffic: under a causal mask the tiled step skips what no row sees", "[kernels]") {
  const int rows = kv::tiled_rows(32);
  const AttentionProblem p =
      one_sequence({{1, 1, 32}, DType::f32, 1.0f, true}, {2 * rows, 2 * rows});
  // The first block sees half of the keys.
  REQUIRE(predicted(p, AttentionStep::tiled, false).k == (rows + 2 * rows) * 32 * 4);
  REQUIRE(kv::counted_bytes(count(p, AttentionStep::tiled, false)) ==
          predicted(p, AttentionStep::tiled, false).total());
}

TEST_CASE("traffic: the least is each array once", "[kernels]") {
  const kv::AttentionShape shape{{4, 2, 64}, DType::bf16, 0.125f, true};
  const kv::SequenceRows sequences[] = {{0, 0, 3, 10}, {3, 10, 0, 5}, {3, 15, 1, 7}};
  const AttentionTraffic bytes = kv::least_traffic(shape, sequences, true);
  REQUIRE(bytes.q == 4 * 4 * 64 * 4);
  REQUIRE(bytes.out == bytes.q);
  REQUIRE(bytes.k == 17 * 2 * 64 * 2);  // nobody asks the second sequence
  REQUIRE(bytes.v == bytes.k);
  REQUIRE(bytes.lse == 4 * 4 * 4);
  REQUIRE(bytes.total() == 2 * bytes.q + 2 * bytes.k + bytes.lse);
  for (const AttentionStep step : kRowSteps)
    REQUIRE(kv::predicted_traffic(step, shape, sequences, true).total() >= bytes.total());
}

TEST_CASE("traffic: the tiled step has bank conflicts only where rows of 80 meet", "[kernels]") {
  // Rows are padded so that 8 lanes can read one vector from each of 8 rows. With head_dim 80 the 8
  // lanes of a store do not end where a row ends, and the padding makes two of them meet: in fp32
  // at every second row of a tile. In 16 bits the host compiler may branch around the order of the
  // two halves, which the counters see as more stores; no more than one a row then.
  const int kv_len = 70, num_tiles = 3;
  for (const DType dtype : {DType::f32, DType::f16})
    for (const int head_dim : kv::kHeadDims) {
      const AttentionProblem p =
          one_sequence({{1, 1, head_dim}, dtype, usual_scale(head_dim), true}, {40, kv_len});
      const Counters counters = count(p, AttentionStep::tiled);
      INFO(kv::info(dtype).name << ", head_dim " << head_dim);
      for (const auto& line : counters.lines)
        if (line.tally.units > line.tally.ideal)
          UNSCOPED_INFO(line.place.text()
                        << ": " << line.tally.units << " instead of " << line.tally.ideal);
      const std::uint64_t num_rows = std::uint64_t{2} * num_tiles * kv::tiled_keys(head_dim);
      if (head_dim != 80) {
        CHECK(counters.bank_conflicts() == 0);
      } else if (dtype == DType::f32) {
        CHECK(counters.bank_conflicts() == num_rows / 2);
      } else {
        CHECK(counters.bank_conflicts() <= num_rows);
      }
    }
}
