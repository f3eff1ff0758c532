// Exercise 03_online_kernel: the loop of online_kernel.
#include "course/attention_support.hpp"

namespace {

using kv_course::AttentionProblem;
using kv_course::AttentionRun;
using kv_course::pick;

AttentionRun run(const AttentionProblem& p) {
  return kv_course::run_attention(p, kv::checked::launch_online);
}

}  // namespace

TEST_CASE("the output is attention, with and without a mask") {
  auto random = kv_course::random_numbers(1);
  for (const bool causal : {false, true}) {
    const AttentionProblem p = kv_course::random_attention(
        random, {{pick(random, 4, 6), pick(random, 9, 14)}, {1, pick(random, 1, 3)}}, causal);
    kv_course::expect_attention(p, run(p).got);
  }
}

TEST_CASE("scores of several hundred do not overflow") {
  auto random = kv_course::random_numbers(2);
  const AttentionProblem p =
      kv_course::random_attention(random, {{3, pick(random, 20, 30)}}, false, 400.0f);
  kv_course::expect_attention(p, run(p).got, 2e-3);
}

TEST_CASE("keys that a row may not see are not read") {
  auto random = kv_course::random_numbers(3);
  // More rows than keys: the first rows see none.
  const std::int64_t kv_len = pick(random, 4, 6);
  AttentionProblem p =
      kv_course::random_attention(random, {{kv_len + pick(random, 1, 2), kv_len}}, true);
  // Only the last row sees the last key.
  const kv::SequenceRows& rows = p.sequences[0];
  const auto size = static_cast<std::size_t>(p.shape.heads.kv_dim());
  const auto last = static_cast<std::size_t>(rows.kv_begin + kv_len - 1) * size;
  for (std::size_t i = last; i < last + size; ++i)
    p.k[i] = p.v[i] = std::numeric_limits<float>::quiet_NaN();
  kv_course::expect_attention(p, run(p).got, 1e-5, rows.q_len - 1);
}

TEST_CASE("each byte of K and V is read once for a row") {
  auto random = kv_course::random_numbers(4);
  const AttentionProblem p =
      kv_course::random_attention(random, {{pick(random, 3, 5), pick(random, 20, 30)}}, true);
  const kv::SequenceRows& rows = p.sequences[0];
  std::uint64_t rows_read = 0;  // of q, by each of the 4 warps of a CTA, and of K and V
  for (int t = 0; t < rows.q_len; ++t)
    rows_read += 4 + 2 * static_cast<std::uint64_t>(kv_course::visible(p, rows, t));
  CHECK(run(p).loads().bytes == rows_read * 4 * static_cast<std::uint64_t>(p.shape.heads.q_dim()));
}

TEST_CASE("no score is stored in global memory") {
  auto random = kv_course::random_numbers(5);
  const AttentionProblem p =
      kv_course::random_attention(random, {{pick(random, 2, 4), pick(random, 9, 20)}}, true);
  const AttentionRun result = run(p);
  CHECK(result.counters.of(kv::emulator::Traffic::global_store).bytes ==
        kv_course::output_bytes(p));
  kv_course::expect_attention(p, result.got);
}
