// Step 7: attention whose keys lie in blocks, against the oracle and against the steps whose
// kernels it runs.
#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <limits>
#include <string>

#include "attention/paged_arrays.cuh"
#include "attention/traffic.hpp"
#include "ladder_steps.hpp"
#include "paged_problem.hpp"

using namespace kv_test;
using kv::AttentionShape;
using kv::AttentionStep;
using kv::Backend;
using kv::DType;
using kv::SplitOptions;

namespace {

constexpr int kBlockSizes[] = {1, 2, 4, 8, 16, 32, 64, 128, 256};

// Decode and prefill, prefill behind a cached beginning, more queries than keys; nothing cached,
// nothing asked; lengths around blocks of 4 and 16 and around the tiles of both kernels.
const Lengths kBatch[] = {{1, 67}, {5, 9},  {1, 1},  {0, 7},   {3, 0},  {1, 0}, {33, 97},
                          {1, 16}, {1, 17}, {1, 15}, {19, 19}, {7, 64}, {5, 3}, {1, 131}};
// Fewer, for the checked build.
const Lengths kSmallBatch[] = {{1, 33}, {5, 9}, {0, 3}, {2, 0}, {1, 0}, {1, 16}, {17, 21}, {6, 4}};

// Decode rounds q and the weights to the format of K and V, prefill does not.
Looseness looseness(DType dtype) {
  if (dtype == DType::f16) return kRoundedToF16;
  return dtype == DType::bf16 ? kRoundedToBf16 : Looseness{};
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

std::span<const float> rows_of(const AttentionProblem& p, const std::vector<float>& values, int b,
                               int row_elements) {
  return std::span(values).subspan(p.sequences[b].q_begin * row_elements,
                                   p.sequences[b].q_len * row_elements);
}

// out and lse of sequence b.
bool same_sequence(const AttentionProblem& p, const AttentionResult& x, const AttentionResult& y,
                   int b) {
  const kv::HeadConfig& heads = p.shape.heads;
  return same_bits(rows_of(p, x.out, b, heads.q_dim()), rows_of(p, y.out, b, heads.q_dim())) &&
         same_bits(rows_of(p, x.lse, b, heads.num_q_heads),
                   rows_of(p, y.lse, b, heads.num_q_heads));
}

}  // namespace

TEST_CASE("paged: every block size agrees with the oracle", "[kernels][big][paged]") {
  for (const DType dtype : kFormats)
    for (const int block_size : kBlockSizes)
      for (const bool causal : {true, false}) {
        INFO(kv::info(dtype).name << ", blocks of " << block_size << ", causal " << causal);
        const AttentionProblem p = random_problem(grouped_shape(64, dtype, causal), kBatch, 1);
        for (const int chunk : {0, 16, 40})
          require_oracle(p, run_in_blocks(p, block_size, Backend::emulated, true, {8, chunk}),
                         looseness(dtype));
      }
}

TEST_CASE("paged: every head size and format agrees with the oracle", "[kernels][big][paged]") {
  for (const DType dtype : kFormats)
    for (const int head_dim : kv::kHeadDims)
      for (const int block_size : {2, 16, 64}) {
        INFO(kv::info(dtype).name << ", head_dim " << head_dim << ", blocks of " << block_size);
        const AttentionProblem p =
            random_problem(grouped_shape(head_dim, dtype, true), kBatch, head_dim);
        require_oracle(p, run_in_blocks(p, block_size, Backend::emulated, true, {8, 0}),
                       looseness(dtype));
      }
}

TEST_CASE("paged: blocks change no bit of what the contiguous steps compute",
          "[kernels][big][paged]") {
  for (const DType dtype : kFormats)
    for (const int block_size : {1, 4, 16, 128})
      for (const bool causal : {true, false}) {
        INFO(kv::info(dtype).name << ", blocks of " << block_size << ", causal " << causal);
        const AttentionProblem p = random_problem(grouped_shape(64, dtype, causal), kBatch, 2);
        // A fixed chunk cuts a sequence the same way whatever else is in the batch.
        const SplitOptions split = {8, 32};
        const AttentionResult paged = run_in_blocks(p, block_size, Backend::emulated, true, split);
        const AttentionResult grouped =
            run(p, AttentionStep::grouped, Backend::emulated, true, split);
        const AttentionResult tiled = run(p, AttentionStep::tiled, Backend::emulated);
        for (int b = 0; b < std::ssize(p.sequences); ++b) {
          INFO("sequence " << b << ", q_len " << p.sequences[b].q_len);
          REQUIRE(same_sequence(p, paged, p.sequences[b].q_len == 1 ? grouped : tiled, b));
        }
      }
}

TEST_CASE("paged: no fault is found in any order of threads", "[kernels][big][paged]") {
  for (const DType dtype : kFormats)
    for (const int block_size : {1, 8, 64}) {
      INFO(kv::info(dtype).name << ", blocks of " << block_size);
      const AttentionProblem p = random_problem(grouped_shape(64, dtype, true), kSmallBatch, 3);
      const PagedProblem paged = in_blocks(p, block_size);
      const AttentionResult first = run_paged(p, paged, Backend::checked, true, {8, 16});
      in_every_order([&] {
        const AttentionResult result = run_paged(p, paged, Backend::checked, true, {8, 16});
        require_oracle(p, result, looseness(dtype));
        for (int b = 0; b < std::ssize(p.sequences); ++b)
          REQUIRE(same_sequence(p, result, first, b));
      });
    }
}

TEST_CASE("paged: no fault is found in any head size", "[kernels][big][paged]") {
  for (const DType dtype : kFormats)
    for (const int head_dim : kv::kHeadDims) {
      INFO(kv::info(dtype).name << ", head_dim " << head_dim);
      const AttentionProblem p =
          random_problem(grouped_shape(head_dim, dtype, head_dim % 64 == 0), kSmallBatch, 4);
      require_oracle(p, run_in_blocks(p, 16, Backend::checked), looseness(dtype));
    }
}

TEST_CASE("paged: a sequence in a batch is what it is alone", "[kernels][paged]") {
  // Two KV heads and two sequences: who mixes up the axes must not get away with it.
  const Lengths lengths[] = {{1, 3}, {1, 5}, {4, 9}};
  AttentionProblem p = random_problem(grouped_shape(32, DType::f32, true), lengths, 5);
  const AttentionResult together = run_in_blocks(p, 4, Backend::checked);
  for (int b = 0; b < 3; ++b) {
    AttentionProblem alone = p;
    alone.sequences = {p.sequences[b]};
    const AttentionResult result = run_in_blocks(alone, 4, Backend::checked);
    REQUIRE(same_bits(rows_of(p, together.out, b, p.shape.heads.q_dim()),
                      rows_of(alone, result.out, 0, p.shape.heads.q_dim())));
  }
}

TEST_CASE("paged: sequences may share blocks", "[kernels][paged]") {
  // The second has the first one's keys, and its own behind them.
  const Lengths lengths[] = {{1, 8}, {1, 11}, {3, 11}};
  for (const DType dtype : kFormats) {
    AttentionProblem p = random_problem(grouped_shape(32, dtype, true), lengths, 6);
    const int row = p.shape.heads.kv_dim();
    for (const int b : {1, 2})
      for (auto* values : {&p.k, &p.v})
        std::copy_n(values->begin() + p.sequences[0].kv_begin * row, 8 * row,
                    values->begin() + p.sequences[b].kv_begin * row);
    PagedProblem paged = in_blocks(p, 4);
    for (const int b : {1, 2})
      for (int i = 0; i < 2; ++i) paged.block_ids[b * paged.max_blocks + i] = paged.block_ids[i];
    require_oracle(p, run_paged(p, paged, Backend::checked), looseness(dtype));
  }
}

TEST_CASE("paged: groups of any size read their KV head", "[kernels][paged]") {
  for (const int group : {1, 2, 3, 4, 7, 8, 16, 32}) {
    INFO("group of " << group);
    const Lengths lengths[] = {{1, 50}, {1, 13}, {4, 21}};
    const AttentionProblem p =
        random_problem({{2 * group, 2, 32}, DType::f32, usual_scale(32), true}, lengths, 7);
    require_oracle(p, run_in_blocks(p, 8, Backend::emulated));
  }
}

TEST_CASE("paged: a table that does not reach is refused before a kernel runs",
          "[kernels][paged]") {
  const Lengths lengths[] = {{1, 9}, {2, 4}, {0, 40}};
  const AttentionProblem p = random_problem(grouped_shape(32, DType::f32, true), lengths, 8);
  const PagedProblem good = in_blocks(p, 4);
  const auto plan = [&](const PagedProblem& paged) {
    const kv::AttentionPlan plan(kv::device(Backend::emulated), p.shape, p.sequences,
                                 paged.tables());
  };
  CHECK_NOTHROW(plan(good));
  // The third block of sequence 0 holds one token: it is needed, the fourth is not.
  for (const std::int32_t id : {-1, -2, static_cast<std::int32_t>(good.num_blocks), 1 << 30}) {
    PagedProblem bad = good;
    bad.block_ids[2] = id;
    CHECK_THROWS_AS(plan(bad), std::invalid_argument);
    bad = good;
    bad.block_ids[3] = id;
    CHECK_NOTHROW(plan(bad));
    bad = good;
    bad.block_ids[bad.max_blocks] = id;  // of the second sequence
    CHECK_THROWS_AS(plan(bad), std::invalid_argument);
    bad = good;
    bad.block_ids[2 * bad.max_blocks] = id;  // nobody asks the third one
    CHECK_NOTHROW(plan(bad));
  }
  PagedProblem bad = good;
  bad.block_ids.pop_back();
  CHECK_THROWS_AS(plan(bad), std::invalid_argument);
  for (const int block_size : {0, -4, 3, 12}) {
    bad = good;
    bad.block_size = block_size;
    CHECK_THROWS_AS(plan(bad), std::invalid_argument);
  }
  bad = good;  // tables of two blocks, where the first sequence needs three
  bad.max_blocks = 2;
  bad.block_ids.resize(6);
  CHECK_THROWS_AS(plan(bad), std::invalid_argument);
  CHECK_THROWS_AS(
      kv::AttentionPlan(kv::device(Backend::emulated), AttentionStep::paged, p.shape, p.sequences),
      std::invalid_argument);
}

TEST_CASE("paged: offsets have 64 bits", "[kernels][paged]") {
  // The offsets of block and head alone; no memory is needed for the check.
  const auto offset = [](std::int32_t block, int num_kv_heads, int head_dim) {
    kv::emulated::PagedArrays<float> a{};
    a.num_kv_heads = num_kv_heads;
    a.block_ids = &block;
    a.block_shift = 4;
    return a.kv_index({0, 0, 1, 1}, 0, 0) * head_dim;
  };
  CHECK(offset(7767, 135, 128) == 2147420160);  // blocks of 276,480 elements
  CHECK(offset(7768, 135, 128) == 2147696640);
  CHECK(offset(65536, 16, 128) == 2147483648);
  CHECK(offset(std::numeric_limits<std::int32_t>::max(), 16, 128) ==
        std::int64_t{std::numeric_limits<std::int32_t>::max()} * 32768);
}

TEST_CASE("paged: a row is its block's place and its own", "[kernels][paged]") {
  const std::int32_t ids[] = {9, 9, 10, 11};  // of two sequences, two blocks each
  kv::emulated::PagedArrays<float> a{};
  a.num_kv_heads = 2;
  a.block_ids = ids;
  a.block_shift = 2;
  const kv::SequenceRows second = {0, 2, 1, 8};
  CHECK(a.kv_index(second, 0, 0) == 40 * 2);
  CHECK(a.kv_index(second, 3, 1) == 43 * 2 + 1);
  CHECK(a.kv_index(second, 4, 0) == 44 * 2);
  CHECK(a.kv_index(second, 7, 1) == 47 * 2 + 1);
  a.block_shift = 0;  // blocks of 1
  CHECK(a.kv_index(second, 1, 0) == 11 * 2);
}

TEST_CASE("paged: kernels reach blocks beyond 2^31 elements", "[kernels][paged]") {
  // K and V claim to begin 2^33 elements before their memory; only the blocks of the tables exist.
  for (const DType dtype : kFormats) {
    const Lengths lengths[] = {{1, 37}, {3, 37}};
    const AttentionProblem p = random_problem(grouped_shape(32, dtype, true), lengths, 9);
    PagedProblem paged = in_blocks(p, 8);
    const AttentionResult near = run_paged(p, paged, Backend::checked);
    const std::int64_t shift = (std::int64_t{1} << 33) / (8 * p.shape.heads.kv_dim());  // blocks
    for (std::int32_t& id : paged.block_ids)
      if (id >= 0 && id < paged.num_blocks) id += static_cast<std::int32_t>(shift);
    paged.num_blocks += shift;
    kv::Device& device = kv::device(Backend::checked);
    const kv::AttentionPlan plan(device, p.shape, p.sequences, paged.tables());
    const kv::DeviceBuffer<float> q(device, std::span<const float>(p.q));
    const StoredRows k(device, paged.k, dtype), v(device, paged.v, dtype);
    kv::DeviceBuffer<float> out(device, p.q.size());
    out.fill_bytes(0xff);
    const auto begin = [&](const StoredRows& rows) {
      return reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(rows.data()) -
                                           (std::int64_t{1} << 33) * kv::info(dtype).block_bytes);
    };
    plan.run(q.data(), begin(k), begin(v), out.data());
    device.synchronize();
    REQUIRE(same_bits(out.to_host(), near.out));
  }
}

TEST_CASE("paged: it moves the bytes of the contiguous steps, whatever the block size",
          "[kernels][paged]") {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const int head_dim : {32, 80}) {
      const AttentionShape shape = grouped_shape(head_dim, dtype, true);
      const AttentionProblem p = random_problem(shape, kSmallBatch, 10);
      for (const int block_size : {1, 16, 64})
        for (const bool with_lse : {true, false}) {
          INFO(kv::info(dtype).name << ", head_dim " << head_dim << ", blocks of " << block_size);
          const SplitOptions split = {8, 16};
          const PagedProblem paged = in_blocks(p, block_size);
          const kv::AttentionPlan plan(kv::device(Backend::checked), shape, p.sequences,
                                       paged.tables(), split);
          kv::emulator::reset_counters();
          run_paged(p, paged, Backend::checked, with_lse, split);
          kv::emulator::Counters counted;
          for (const auto& [kernel, counters] : kv::emulator::counters_by_kernel())
            counted.add(counters);
          CHECK(kv::counted_bytes(counted) == kv::predicted_traffic(AttentionStep::paged, shape,
                                                                    p.sequences, with_lse,
                                                                    plan.split_plan())
                                                  .total());
          // What is left out are the tables, and they are read.
          CHECK(static_cast<std::int64_t>(counted.global_bytes()) > kv::counted_bytes(counted));
        }
    }
}

TEST_CASE("paged: a pass without work launches nothing", "[kernels][paged]") {
  const Lengths lengths[] = {{0, 5}, {0, 0}};
  const AttentionProblem p = random_problem(grouped_shape(32, DType::f32, true), lengths, 11);
  kv::emulator::reset_counters();
  const AttentionResult result = run_in_blocks(p, 4, Backend::checked);
  CHECK(kv::emulator::counters_by_kernel().empty());
  for (const float x : result.out) REQUIRE(std::isnan(x));
  // Only decode, only prefill: the other kernel does not run.
  for (const int q_len : {1, 2}) {
    const Lengths one[] = {{q_len, 5}};
    kv::emulator::reset_counters();
    run_in_blocks(random_problem(grouped_shape(32, DType::f32, true), one, 12), 4,
                  Backend::checked);
    CHECK(kv::emulator::counters_by_kernel().size() == 1);
  }
}
