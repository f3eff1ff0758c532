// What the tests of kernel exercises share: launches in the checked emulator, and what it found.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <exception>
#include <string>
#include <vector>

#include "course/support.hpp"
#include "device_buffer.hpp"
#include "emulator/emulator.hpp"

namespace kv_course {

/// The device on which the kernels of exercises run.
inline kv::Device& device() { return kv::device(kv::Backend::checked); }

/// Copies an array to the device.
template <typename T>
kv::DeviceBuffer<T> on_device(const std::vector<T>& values) {
  return {device(), std::span<const T>(values)};
}

/// Runs `launch`, which starts one kernel. Whatever the checker reports (races with both lines,
/// accesses out of bounds, missing barriers) fails the test case in its own words.
/// \return what the kernel read and wrote
template <typename Launch>
kv::emulator::Counters run_checked(const Launch& launch) {
  kv::emulator::options() = {};
  try {
    launch();
    device().synchronize();
  } catch (const std::exception& error) {
    for (const auto& report : kv::emulator::last_launch().reports) FAIL_CHECK(report.text);
    if (kv::emulator::last_launch().reports.empty()) FAIL_CHECK(error.what());
  }
  return kv::emulator::last_launch().counters;
}

}  // namespace kv_course
