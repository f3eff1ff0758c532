// Races in shared memory, and reads of what nobody wrote: found in every order of threads.
#include "support.hpp"

using namespace kv;
using namespace kv::test;
using emulator::Fault;

namespace {

void expect(void (*kernel)(float*), Fault fault, const std::string& mark,
            const std::string& other = {}) {
  in_every_schedule([&] {
    DeviceBuffer<float> out(checked_device(), 1024);
    kernel(out.data());
    require_report(fault, mark, other);
  });
}

const FaultyKernels& faulty() { return checked::faulty_kernels(); }

}  // namespace

TEST_CASE("races: a missing barrier after a write is reported with both lines", "[emulator]") {
  expect(faulty().missing_barrier, Fault::race, "missing_barrier.write", "missing_barrier.read");
}

TEST_CASE("races: a report names the lines that call the wrappers of vector accesses",
          "[emulator]") {
  expect(faulty().missing_barrier_of_vectors, Fault::race, "vectors.write", "vectors.read");
}

TEST_CASE("races: a missing barrier before an overwrite is reported with both lines",
          "[emulator]") {
  expect(faulty().missing_barrier_before_overwrite, Fault::race, "overwrite.write",
         "overwrite.read");
}

TEST_CASE("races: a missing __syncwarp is reported, a shuffle does not replace it", "[emulator]") {
  expect(faulty().missing_warp_sync, Fault::race, "warp_sync.write", "warp_sync.read");
}

TEST_CASE("races: two threads that write the same word are reported", "[emulator]") {
  expect(faulty().write_write, Fault::race, "write_write", "write_write");
}

TEST_CASE("races: a plain read beside an atomic of another thread is reported", "[emulator]") {
  expect(faulty().atomic_and_plain, Fault::race, "atomic_and_plain.atomic",
         "atomic_and_plain.read");
}

TEST_CASE("races: bytes of one word are told apart", "[emulator]") {
  in_every_schedule([&] {
    DeviceBuffer<float> out(checked_device(), 1024);
    faulty().byte_race(out.data());
    require_report(Fault::race, "byte_race.all", "byte_race.one");
    REQUIRE(emulator::last_launch().reports.size() == 1);  // the neighbours are no race
  });
}

TEST_CASE("unwritten shared memory: a read is reported", "[emulator]") {
  expect(faulty().never_written, Fault::uninitialized_read, "never_written");
}

TEST_CASE("unwritten shared memory: adding to it counts as a read", "[emulator]") {
  expect(faulty().read_before_add, Fault::uninitialized_read, "read_before_add");
}

TEST_CASE("reports: they name kernel, CTA and threads", "[emulator]") {
  in_every_schedule([&] {
    DeviceBuffer<float> out(checked_device(), 1024);
    faulty().missing_barrier(out.data());
    // In some orders a thread also reads before anyone has written: that is another report.
    REQUIRE(emulator::reported(Fault::race));
    emulator::Report report;
    for (const auto& any : emulator::last_launch().reports)
      if (any.fault == Fault::race) report = any;
    REQUIRE(report.kernel == "missing_barrier_kernel");
    REQUIRE(report.cta.x == 0);
    REQUIRE(report.place.file.ends_with("faulty_kernels.cu"));
    INFO(report.text);
    REQUIRE(report.text.find("kernel missing_barrier_kernel, CTA (0,0,0), thread (") !=
            std::string::npos);
    REQUIRE(report.text.find("no __syncthreads orders the two") != std::string::npos);
  });
}
