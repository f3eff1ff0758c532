#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include "kv/fast/thread_team.hpp"

namespace {

// Puts the team back to its size when a test ends.
struct TeamSize {
  explicit TeamSize(int count) { kv::set_num_threads(count); }
  ~TeamSize() { kv::set_num_threads(before); }
  int before = kv::num_threads();
};

}  // namespace

TEST_CASE("thread team: every thread runs the task once, the caller as thread 0", "[thread_team]") {
  for (const int count : {1, 2, 3, 8, 2}) {
    const TeamSize size(count);
    REQUIRE(kv::num_threads() == count);
    const std::thread::id caller = std::this_thread::get_id();
    for (int section = 0; section < 200; ++section) {
      std::vector<std::atomic<int>> runs(count);
      std::atomic<bool> right = true;
      kv::parallel([&](int thread, int num_threads) {
        ++runs[thread];
        if (num_threads != count) right = false;
        if ((std::this_thread::get_id() == caller) != (thread == 0)) right = false;
      });
      REQUIRE(right);
      for (const std::atomic<int>& n : runs) REQUIRE(n == 1);
    }
  }
}

TEST_CASE("thread team: a section sees what was written before it, the caller what it wrote",
          "[thread_team]") {
  const TeamSize size(4);
  std::vector<int> numbers(4, 0);  // plain ints: a missing ordering is a data race
  for (int section = 1; section <= 2000; ++section) {
    kv::parallel([&](int thread, int) {
      // Each thread builds on what its neighbour wrote in the section before.
      if (section % 2 == thread % 2) numbers[thread] = section + 0 * numbers[(thread + 1) % 4];
    });
  }
  REQUIRE(numbers == std::vector<int>{2000, 1999, 2000, 1999});
}

TEST_CASE("thread team: a sleeping team wakes up", "[thread_team]") {
  const TeamSize size(3);
  for (int i = 0; i < 3; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // far longer than it spins
    std::atomic<int> runs = 0;
    kv::parallel([&](int thread, int) {
      if (thread == 2) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      ++runs;
    });
    REQUIRE(runs == 3);
  }
}

TEST_CASE("thread team: an exception of any thread reaches the caller and the team goes on",
          "[thread_team]") {
  const TeamSize size(3);
  for (const int thrower : {0, 1, 2}) {
    std::atomic<int> finished = 0;
    REQUIRE_THROWS_AS(kv::parallel([&](int thread, int) {
                        if (thread == thrower) throw std::runtime_error("task");
                        ++finished;
                      }),
                      std::runtime_error);
    REQUIRE(finished == 2);
    std::atomic<int> runs = 0;
    kv::parallel([&](int, int) { ++runs; });
    REQUIRE(runs == 3);
  }
}

TEST_CASE("thread team: nesting and an empty team are refused", "[thread_team]") {
  const TeamSize size(2);
  REQUIRE_THROWS_AS(kv::parallel([](int, int) { kv::parallel([](int, int) {}); }),
                    std::invalid_argument);
  REQUIRE_THROWS_AS(kv::parallel([](int, int) { kv::set_num_threads(3); }), std::invalid_argument);
  REQUIRE_THROWS_AS(kv::set_num_threads(0), std::invalid_argument);
  REQUIRE(kv::num_threads() == 2);
  std::atomic<int> seen = 0;
  kv::parallel([&](int, int) { seen += kv::num_threads(); });  // asking is allowed
  REQUIRE(seen == 4);
}

TEST_CASE("thread team: sections of several callers follow each other", "[thread_team]") {
  const TeamSize size(2);
  std::atomic<int> inside = 0, runs = 0;
  std::atomic<bool> alone = true;
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        kv::parallel([&](int, int) {
          if (++inside > 2) alone = false;
          ++runs;
          --inside;
        });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  REQUIRE(alone);
  REQUIRE(runs == 4 * 100 * 2);
}

TEST_CASE("thread team: more threads than processors do not stall each other", "[thread_team]") {
  // With pure spinning, each of these sections would last for several time slices of the system
  // (milliseconds), 2,000 of them for minutes; the test's own time limit is what fails then.
  const TeamSize size(16);
  std::atomic<int> runs = 0;
  for (int section = 0; section < 2000; ++section) kv::parallel([&](int, int) { ++runs; });
  REQUIRE(runs == 16 * 2000);
}
