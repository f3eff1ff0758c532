// Goals held against rows that are made up: met, missed, and without any kernel.
#include <catch2/catch_test_macros.hpp>

#include "sass/goals.hpp"
#include "sass/occupancy.hpp"

namespace {

using namespace kv::sass;

KernelRow row() {
  KernelRow row;
  row.file = "05_split_kv";
  row.architecture = 90;
  row.name = {"split_kv_kernel", {"f16", "64"}};
  row.threads_per_cta = 256;
  row.resident_ctas = 2;
  row.loop = LoopCounts{};
  row.loop->instructions = 320;
  row.loop->global_loads = 8;
  row.loop->wide_global_loads = 8;
  row.loop->wide_load_bytes = 128;
  row.loop->bytes_in_flight = 128;
  row.loop->fma = 128;
  return row;
}

Verdict check_one(const KernelRow& row, Figure figure, bool at_least, double bound) {
  const Goal goal{"05_split_kv", "split_kv_kernel", 80, 2, {}, figure, at_least, bound, ""};
  const auto verdicts = check_goals(std::span(&row, 1), std::span(&goal, 1));
  REQUIRE(verdicts.size() == 1);
  return verdicts[0];
}

}  // namespace

TEST_CASE("goals: figures follow from the counts of the loop", "[sass]") {
  CHECK(row().instructions_per_element() == 5.0);      // 320 for 128 / 2 elements
  CHECK(row().bytes_in_flight_per_sm() == 64 * 1024);  // 128 bytes of 512 threads
  CHECK_FALSE(row().instructions_per_mma());
  KernelRow copy = row();
  copy.loop->fma = 0;
  CHECK_FALSE(copy.instructions_per_element());
}

TEST_CASE("goals: a bound is met at its very value and missed past it", "[sass]") {
  CHECK(check_one(row(), Figure::instructions_per_element, false, 5.0).met);
  CHECK_FALSE(check_one(row(), Figure::instructions_per_element, false, 4.99).met);
  CHECK(check_one(row(), Figure::bytes_in_flight_per_sm, true, 65536).met);
  CHECK_FALSE(check_one(row(), Figure::bytes_in_flight_per_sm, true, 65537).met);
  CHECK(check_one(row(), Figure::local_memory, false, 0).met);
}

TEST_CASE("goals: local memory and narrow loads are found", "[sass]") {
  KernelRow bad = row();
  bad.local_instructions = 1;
  CHECK_FALSE(check_one(bad, Figure::local_memory, false, 0).met);
  bad = row();
  bad.resources.spill_bytes = 4;
  CHECK_FALSE(check_one(bad, Figure::local_memory, false, 0).met);
  bad = row();
  bad.loop->wide_global_loads = 7;
  CHECK_FALSE(check_one(bad, Figure::narrow_loads, false, 0).met);
}

TEST_CASE("goals: what cannot be counted is not met", "[sass]") {
  KernelRow bad = row();
  bad.loop->has_inner_loop = true;
  CHECK_FALSE(check_one(bad, Figure::instructions_per_element, false, 6).met);
  bad.loop.reset();
  CHECK_FALSE(check_one(bad, Figure::instructions_per_element, false, 6).met);
  CHECK_FALSE(check_one(bad, Figure::narrow_loads, false, 0).met);
  CHECK_FALSE(check_one(row(), Figure::instructions_per_mma, false, 6).met);
  KernelRow renamed = row();
  renamed.name.base = "another_kernel";
  CHECK_FALSE(check_one(renamed, Figure::local_memory, false, 0).met);
}

TEST_CASE("goals: a missed one names kernel, architecture, found and wanted", "[sass]") {
  const std::string text = check_one(row(), Figure::instructions_per_element, false, 4).text;
  for (const char* part : {"split_kv_kernel<f16, 64>", "sm_90", "5 instructions", "at most 4"}) {
    CAPTURE(text, part);
    CHECK(text.find(part) != std::string::npos);
  }
}

TEST_CASE("occupancy: each resource limits in its turn", "[sass]") {
  CHECK(resident_ctas(90, {256, 32, 0, 0}) == 8);  // 2,048 threads
  CHECK(resident_ctas(75, {256, 32, 0, 0}) == 4);  // 1,024 threads
  CHECK(resident_ctas(90, {32, 32, 0, 0}) == 32);  // CTAs
  CHECK(resident_ctas(89, {32, 32, 0, 0}) == 24);
  CHECK(resident_ctas(90, {256, 128, 0, 0}) == 2);          // 65,536 registers
  CHECK(resident_ctas(90, {128, 32, 0, 64 * 1024}) == 3);   // 228 KiB, and 1 KiB for each CTA
  CHECK(resident_ctas(86, {128, 32, 0, 64 * 1024}) == 1);   // 100 KiB
  CHECK(resident_ctas(86, {128, 32, 0, 100 * 1024}) == 0);  // 99 are the most of one CTA
  CHECK(resident_ctas(75, {128, 32, 40 * 1024, 0}) == 1);   // 64 KiB
  CHECK_THROWS(resident_ctas(61, {128, 32, 0, 0}));
}
