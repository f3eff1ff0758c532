// The walk over the ladder: what its rows say, and what is printed and drawn.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "attention/ladder_report.hpp"

using Catch::Matchers::ContainsSubstring;
using kv::AttentionStep, kv::DType;

TEST_CASE("ladder report: a row knows what must move, what is computed, what is stored",
          "[kernels]") {
  // 2 query heads of 32 over 1 KV head, 5 queries, 9 keys: rows see 5, 6, 7, 8, 9 keys.
  const kv::AttentionShape shape{{2, 1, 32}, DType::f32, 0.2f, true};
  const kv::LadderRow row = kv::measure_step(AttentionStep::two_pass, shape, 5, 9);
  CHECK(row.bytes_needed == 2 * 5 * 2 * 32 * 4 + 2 * 9 * 32 * 4);
  CHECK(row.flops == 4 * 2 * 32 * 35);
  CHECK(row.scratch_bytes == 2 * 35 * 4);  // the scores of the keys that are seen
  CHECK(row.bytes_moved == row.bytes_predicted);
  CHECK(row.intensity() == static_cast<double>(row.flops) / static_cast<double>(row.bytes_moved));
  CHECK(row.sectors_per_load >= row.best_sectors);
  CHECK(kv::measure_step(AttentionStep::online, shape, 5, 9).scratch_bytes == 0);
}

TEST_CASE("ladder report: every step of the walk is counted as predicted, and climbs",
          "[kernels]") {
  const kv::HeadConfig heads = GENERATE(kv::HeadConfig{4, 2, 32}, kv::HeadConfig{3, 1, 64});
  const auto rows = kv::walk_ladder(heads, DType::f32);
  REQUIRE(rows.size() == 7);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    INFO("step " << kv::name(rows[i].step));
    CHECK(static_cast<std::size_t>(rows[i].step) == i + 1);
    CHECK(rows[i].bytes_moved == rows[i].bytes_predicted);
    CHECK(rows[i].bytes_moved >= rows[i].bytes_needed);
    CHECK(rows[i].kv_dtype == (i == 3 ? DType::bf16 : DType::f32));
    CHECK(rows[i].q_len == (i >= 4 ? 1 : kv::kPrefillRows));
    if (i > 0 && i < 4) CHECK(rows[i].bytes_moved < rows[i - 1].bytes_moved);
  }
  CHECK(rows[0].scratch_bytes == 4 * heads.num_q_heads * 64 * 65 / 2);
  CHECK(rows[4].scratch_bytes > 0);  // partial results: the keys are split
  // Step 6 reads K and V once for all query heads of a group, and so does step 7.
  const std::int64_t kv_bytes = std::int64_t{2} * kv::kDecodeKeys * heads.kv_dim() * 4;
  CHECK(rows[4].bytes_moved >= heads.group_size() * kv_bytes);
  for (const std::size_t i : {5, 6}) {
    CHECK(rows[i].bytes_moved >= kv_bytes);
    CHECK(rows[i].bytes_moved < kv_bytes + kv_bytes / 8);
  }
  const auto one = kv::walk_ladder(heads, DType::f16, 5);
  REQUIRE(one.size() == 1);
  CHECK(one[0].step == AttentionStep::split_kv);
  CHECK(one[0].kv_dtype == DType::f16);
}

TEST_CASE("ladder report: heads without kernels get a line, and no picture", "[kernels]") {
  kv::ChapterOptions options;
  std::ostringstream out;
  kv::show_ladder({8, 4, 8}, options, 0, out);
  CHECK_THAT(out.str(), ContainsSubstring("No ladder: head_dim 8"));
  options.svg = "never.svg";
  CHECK_THROWS_AS(kv::show_ladder({8, 4, 8}, options, 0, out), kv::InputError);
  CHECK(!std::filesystem::exists("never.svg"));
}
