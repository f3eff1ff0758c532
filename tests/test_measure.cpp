#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <stdexcept>

#include "kv/cost/measure.hpp"
#include "kv/fast/thread_team.hpp"

using kv::ColdMemory;

TEST_CASE("measure: a read sees every word once, in any number of places and threads", "[cost]") {
  const int before = kv::num_threads();
  kv::set_num_threads(2);
  const ColdMemory memory;
  CHECK(memory.bytes() == ColdMemory::kNumParts * memory.part_bytes());
  for (const int threads : {1, 2, 3}) {  // also others than those that wrote it
    kv::set_num_threads(threads);
    for (const int streams : ColdMemory::kStreams) {
      INFO(streams << " places, " << threads << " threads");
      // read() compares the sum of all words with what it must be.
      for (int part = 0; part < ColdMemory::kNumParts; ++part)
        CHECK_NOTHROW(memory.read(streams, part));
    }
  }
  for (const int streams : {-1, 0, 3, 16})
    CHECK_THROWS_AS(memory.read(streams, 0), std::invalid_argument);
  for (const int part : {-1, ColdMemory::kNumParts})
    CHECK_THROWS_AS(memory.read(1, part), std::invalid_argument);
  kv::set_num_threads(before);
}

#ifdef _SC_LEVEL3_CACHE_SIZE
TEST_CASE("measure: no cache holds what is read between two reads of a part", "[cost]") {
  const long cache = ::sysconf(_SC_LEVEL3_CACHE_SIZE);
  const ColdMemory memory;
  if (memory.bytes() >= std::int64_t{2} << 30) SKIP("caches so large that 2 GiB is the bound");
  if (memory.bytes() < std::int64_t{256} << 20) SKIP("too little memory here");
  CHECK(memory.bytes() - memory.part_bytes() > cache);
}
#endif

TEST_CASE("measure: every thread does the same number of multiply-adds", "[cost]") {
  const int before = kv::num_threads();
  kv::set_num_threads(1);
  const double alone = kv::multiply_add();
  kv::set_num_threads(3);
  CHECK(alone > 1e6);
  CHECK(kv::multiply_add() == 3 * alone);
  kv::set_num_threads(before);
}
