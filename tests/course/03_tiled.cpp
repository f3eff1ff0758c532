// Exercise 03_tiled: visit_tile() of the tiled kernel.
#include "attention/tile_shape.hpp"
#include "course/attention_support.hpp"

namespace {

using kv_course::AttentionProblem;
using kv_course::AttentionRun;
using kv_course::pick;

constexpr std::int64_t kRows = kv::tiled_rows(64);  // query rows of a CTA
constexpr std::int64_t kKeys = kv::tiled_keys(64);  // keys of a tile

AttentionRun run(const AttentionProblem& p) {
  return kv_course::run_attention(p, kv::checked::launch_tiled);
}

}  // namespace

TEST_CASE("the output is attention without a mask") {
  auto random = kv_course::random_numbers(1);
  const AttentionProblem p = kv_course::random_attention(
      random, {{pick(random, 5, 9), 2 * kKeys + pick(random, 3, 9)}, {2, pick(random, 1, 7)}},
      false);
  kv_course::expect_attention(p, run(p).got);
}

TEST_CASE("the mask is right at the edges of tiles") {
  auto random = kv_course::random_numbers(2);
  // The first row sees all keys but q_len - 1: one less than a tile, a tile, one more.
  const std::int64_t q_len = pick(random, 3, 6);
  for (const std::int64_t first_sees : {kKeys - 1, kKeys, kKeys + 1}) {
    const AttentionProblem p =
        kv_course::random_attention(random, {{q_len, first_sees + q_len - 1}}, true);
    kv_course::expect_attention(p, run(p).got);
  }
  // Rows of a second CTA, and rows that see no key.
  const AttentionProblem p =
      kv_course::random_attention(random, {{kRows + 2, kRows - pick(random, 1, 9)}}, true);
  kv_course::expect_attention(p, run(p).got);
}

TEST_CASE("scores of several hundred do not overflow") {
  auto random = kv_course::random_numbers(3);
  const AttentionProblem p = kv_course::random_attention(
      random, {{pick(random, 2, 5), 2 * kKeys + pick(random, 1, 9)}}, false, 400.0f);
  kv_course::expect_attention(p, run(p).got, 2e-3);
}

TEST_CASE("keys that a row may not see are not read into its sums") {
  auto random = kv_course::random_numbers(4);
  AttentionProblem p = kv_course::random_attention(
      random, {{pick(random, 4, 6), kKeys + pick(random, 3, 20)}}, true);
  // Only the last row sees the last key.
  const kv::SequenceRows& rows = p.sequences[0];
  const auto size = static_cast<std::size_t>(p.shape.heads.kv_dim());
  const auto last = static_cast<std::size_t>(rows.kv_begin + rows.kv_len - 1) * size;
  for (std::size_t i = last; i < last + size; ++i)
    p.k[i] = p.v[i] = std::numeric_limits<float>::quiet_NaN();
  kv_course::expect_attention(p, run(p).got, 1e-5, rows.q_len - 1);
}

TEST_CASE("no race, whatever the order of the threads") {
  auto random = kv_course::random_numbers(5);
  // Three tiles: what the first leaves behind meets the second, and with a mask the third.
  const AttentionProblem p = kv_course::random_attention(
      random, {{pick(random, 3, 6), 2 * kKeys + pick(random, 6, 20)}}, true);
  for (const auto order : {kv::emulator::Order::forward, kv::emulator::Order::reverse}) {
    const AttentionRun result = kv_course::run_attention(p, [&](const kv::AttentionLaunch& launch) {
      kv::emulator::options().order = order;
      kv::checked::launch_tiled(launch);
    });
    kv_course::expect_attention(p, result.got);
  }
}

TEST_CASE("each byte of K and V is read once for a tile of query rows") {
  auto random = kv_course::random_numbers(6);
  const AttentionProblem p = kv_course::random_attention(
      random, {{kRows + pick(random, 1, 5), kRows + pick(random, 1, 5)}}, true);
  const kv::SequenceRows& rows = p.sequences[0];
  // The last row of each tile of query rows sees the most keys.
  std::int64_t rows_read = rows.q_len;  // of q, and of K and V
  for (std::int64_t t = 0; t < rows.q_len; t += kRows)
    rows_read += 2 * kv_course::visible(p, rows, std::min<std::int64_t>(t + kRows, rows.q_len) - 1);
  const std::int64_t row_bytes = 4 * p.shape.heads.q_dim();  // of all query heads
  CHECK(run(p).loads().bytes == static_cast<std::uint64_t>(rows_read * row_bytes));
}
