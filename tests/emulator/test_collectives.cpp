// Barriers and warp operations that cannot work, and kernels without end: both builds report them.
#include "support.hpp"

using namespace kv;
using namespace kv::test;
using emulator::Fault;

namespace {

void expect(void (*FaultyKernels::*kernel)(float*), Fault fault, const std::string& mark,
            const std::string& other = {}) {
  for (const FaultyKernels* table : {&emulated::faulty_kernels(), &checked::faulty_kernels()})
    in_every_schedule([&] {
      DeviceBuffer<float> out(checked_device(), 1024);
      (table->*kernel)(out.data());
      require_report(fault, mark, other);
    });
}

}  // namespace

TEST_CASE("barriers: a barrier that some threads miss is reported", "[emulator]") {
  expect(&FaultyKernels::barrier_in_branch, Fault::barrier, "barrier_in_branch");
}

TEST_CASE("barriers: threads at different barriers are reported with both lines", "[emulator]") {
  expect(&FaultyKernels::two_barriers, Fault::barrier, "two_barriers.a", "two_barriers.b");
}

TEST_CASE("barriers: a thread that returned before the barrier is reported", "[emulator]") {
  expect(&FaultyKernels::early_return, Fault::barrier, "early_return");
}

TEST_CASE("warp operations: a lane outside its own mask is reported", "[emulator]") {
  expect(&FaultyKernels::lane_not_in_mask, Fault::collective, "lane_not_in_mask");
}

TEST_CASE("warp operations: a shuffle from a lane outside the mask is reported", "[emulator]") {
  expect(&FaultyKernels::shuffle_from_outside, Fault::collective, "shuffle_from_outside");
}

TEST_CASE("warp operations: lanes in different operations are reported with both lines",
          "[emulator]") {
  expect(&FaultyKernels::different_operations, Fault::collective, "different_operations.a",
         "different_operations.b");
}

TEST_CASE("warp operations: different masks are reported", "[emulator]") {
  expect(&FaultyKernels::different_masks, Fault::collective, "different_masks");
}

TEST_CASE("warp operations: a matrix operation without the whole warp is reported", "[emulator]") {
  expect(&FaultyKernels::matrix_in_part_of_warp, Fault::collective, "matrix_in_part_of_warp");
}

TEST_CASE("deadlock: half a warp in a barrier, half in a shuffle ends with a report",
          "[emulator]") {
  expect(&FaultyKernels::barrier_against_shuffle, Fault::deadlock,
         "barrier_against_shuffle.barrier", "barrier_against_shuffle.shuffle");
}

TEST_CASE("no progress: a spin on memory ends with a report", "[emulator]") {
  for (const FaultyKernels* table : {&emulated::faulty_kernels(), &checked::faulty_kernels()}) {
    emulator::options() = {};
    emulator::options().watchdog_seconds = 0.1;
    DeviceBuffer<float> out(checked_device(), 64);
    table->spin(out.data());
    require_report(Fault::no_progress, "spin");
    REQUIRE(cudaGetLastError() == cudaErrorLaunchTimeout);
  }
  emulator::options() = {};
}

TEST_CASE("no progress: a spin on an atomic ends with a report", "[emulator]") {
  for (const FaultyKernels* table : {&emulated::faulty_kernels(), &checked::faulty_kernels()}) {
    emulator::options() = {};
    emulator::options().watchdog_seconds = 0.1;
    DeviceBuffer<int> flag(checked_device(), std::vector<int>(1));
    table->spin_on_atomic(flag.data());
    require_report(Fault::no_progress, "spin_on_atomic");
    cudaGetLastError();
  }
  emulator::options() = {};
}

TEST_CASE("after a failed launch the next one works", "[emulator]") {
  in_every_schedule([&] {
    DeviceBuffer<float> out(checked_device(), 64);
    emulated::faulty_kernels().two_barriers(out.data());
    cudaGetLastError();
    DeviceBuffer<float> in(checked_device(), counting(256));
    emulated::correct_kernels().sum_by_tree(in.data(), out.data(), 1);
    require_no_report();
    REQUIRE(out.to_host()[0] == 255.0f * 128.0f);
  });
}
