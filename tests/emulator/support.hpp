// What the tests of the emulator share: orders of threads, marked lines, buffers.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <fstream>
#include <string>
#include <vector>

#include "device_buffer.hpp"
#include "emulator/emulator.hpp"
#include "kernels.hpp"

namespace kv::test {

/// The schedules that every test runs: what is found must not depend on them.
struct Schedule {
  emulator::Order order;
  std::uint64_t seed;
};
inline const std::vector<Schedule> kSchedules = {{emulator::Order::forward, 0},
                                                 {emulator::Order::reverse, 0},
                                                 {emulator::Order::random, 1},
                                                 {emulator::Order::random, 2}};

/// Runs `body` once in each schedule, with the options set and errors of before forgotten.
template <typename Body>
void in_every_schedule(Body body) {
  for (const Schedule& schedule : kSchedules) {
    emulator::options() = {};
    emulator::options().order = schedule.order;
    emulator::options().seed = schedule.seed;
    INFO("order " << static_cast<int>(schedule.order) << ", seed " << schedule.seed);
    cudaGetLastError();
    body();
    cudaGetLastError();
  }
  emulator::options() = {};
}

/// \return the number of the line of faulty_kernels.cu that carries `// @mark`
inline int line_of(const std::string& mark) {
  std::ifstream in(std::string(KV_SOURCE_DIR) + "/tests/emulator/faulty_kernels.cu");
  std::string text;
  for (int line = 1; std::getline(in, text); ++line)
    if (text.ends_with("// @" + mark)) return line;
  FAIL("no line is marked @" << mark);
  return 0;
}

/// The whole of the last launch's reports, for messages of failing tests.
inline std::string all_reports() {
  std::string text;
  for (const auto& report : emulator::last_launch().reports) text += report.text + "\n";
  return text.empty() ? "no report" : text;
}

/// Checks that the last launch reported `fault` at the marked lines, in either order.
inline void require_report(emulator::Fault fault, const std::string& mark,
                           const std::string& other_mark = {}) {
  INFO(all_reports());
  const int line = line_of(mark);
  const int other = other_mark.empty() ? 0 : line_of(other_mark);
  bool found = false;
  for (const auto& report : emulator::last_launch().reports) {
    if (report.fault != fault) continue;
    const bool same = report.place.line == line && (other == 0 || report.other.line == other);
    const bool swapped = other != 0 && report.place.line == other && report.other.line == line;
    found = found || same || swapped;
  }
  REQUIRE(found);
  REQUIRE(emulator::last_launch().error != cudaSuccess);
}

inline void require_no_report() {
  INFO(all_reports());
  REQUIRE(emulator::last_launch().reports.empty());
  REQUIRE(emulator::last_launch().error == cudaSuccess);
}

inline Device& checked_device() { return device(Backend::checked); }

/// \return 0, 1, 2, ... as floats
inline std::vector<float> counting(std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i);
  return values;
}

}  // namespace kv::test
