// Accesses that are not allowed: out of bounds, misaligned, too early after cp.async.
#include "support.hpp"

using namespace kv;
using namespace kv::test;
using emulator::Fault;

namespace {

const FaultyKernels& faulty() { return checked::faulty_kernels(); }

// A buffer of 1024 floats is the input, another the output.
void expect_copy(void (*kernel)(const float*, float*), Fault fault, const std::string& mark,
                 const std::string& other) {
  in_every_schedule([&] {
    DeviceBuffer<float> in(checked_device(), counting(1024));
    DeviceBuffer<float> out(checked_device(), 1024);
    kernel(in.data(), out.data());
    require_report(fault, mark, other);
  });
}

void require_text(const std::string& part) {
  INFO(all_reports());
  REQUIRE(all_reports().find(part) != std::string::npos);
}

}  // namespace

TEST_CASE("bounds: an index past a static shared array is reported with its type", "[emulator]") {
#ifdef KV_SANITIZER_RUNTIME
  SKIP("the sanitizer's own runtime has this check here");
#endif
  in_every_schedule([&] {
    DeviceBuffer<float> out(checked_device(), 1024);
    for (const int index : {32, 1000, -1}) {
      faulty().out_of_shared_array(out.data(), index);
      require_report(Fault::out_of_bounds, "out_of_shared_array");
      require_text("index " + std::to_string(index) + " is out of bounds of an array of type");
      cudaGetLastError();
    }
    faulty().out_of_shared_array(out.data(), 7);  // its own element
    require_no_report();
  });
}

TEST_CASE("bounds: a pointer past all static shared arrays is reported", "[emulator]") {
  in_every_schedule([&] {
    DeviceBuffer<float> out(checked_device(), std::vector<float>(64, 1e6f));
    faulty().out_of_shared_pointer(out.data());
    require_report(Fault::out_of_bounds, "out_of_shared_pointer");
  });
}

TEST_CASE("bounds: shared memory past the bytes of the launch is reported", "[emulator]") {
  in_every_schedule([&] {
    DeviceBuffer<float> out(checked_device(), 1024);
    faulty().past_requested_bytes(out.data());
    require_report(Fault::out_of_bounds, "past_requested_bytes");
    require_text("the launch asked for 252 bytes");
  });
}

TEST_CASE("bounds: global memory just after and just before a buffer is reported", "[emulator]") {
  in_every_schedule([&] {
    DeviceBuffer<float> out(checked_device(), 100);
    faulty().global_offset(out.data(), 100);
    require_report(Fault::out_of_bounds, "global_offset");
    require_text(
        "0 bytes past the end of global memory of 400 bytes, allocated at test_memory.cpp");
    REQUIRE(cudaGetLastError() == cudaErrorIllegalAddress);
    faulty().global_offset(out.data(), -1);
    require_report(Fault::out_of_bounds, "global_offset");
    require_text("4 bytes before the start of global memory");
    cudaGetLastError();
    faulty().global_offset(out.data(), 99);
    require_no_report();
  });
}

TEST_CASE("bounds: freed memory, host memory and null are told apart", "[emulator]") {
  in_every_schedule([&] {
    DeviceBuffer<float> out(checked_device(), 64);
    const float* freed = nullptr;
    {
      DeviceBuffer<float> gone(checked_device(), 64);
      freed = gone.data();
    }
    faulty().global_any(freed, out.data());
    require_report(Fault::out_of_bounds, "global_any");
    require_text("into freed global memory of 256 bytes");
    cudaGetLastError();

    const std::vector<float> host(64);
    faulty().global_any(host.data(), out.data());
    require_report(Fault::out_of_bounds, "global_any");
    cudaGetLastError();

    faulty().global_any(nullptr, out.data());
    require_report(Fault::out_of_bounds, "global_any");
    require_text("the address is null");
  });
}

TEST_CASE("bounds: the local memory of another thread is reported", "[emulator]") {
  in_every_schedule([&] {
    DeviceBuffer<float> out(checked_device(), 64);
    faulty().local_of_another(out.data());
    require_report(Fault::out_of_bounds, "local_of_another");
    require_text("the local memory of thread (0,0,0)");
  });
}

TEST_CASE("alignment: a 16-byte access off its boundary is reported", "[emulator]") {
  in_every_schedule([&] {
    DeviceBuffer<float> out(checked_device(), 64);
    faulty().misaligned_global(out.data());
    require_report(Fault::misaligned, "misaligned_global");
    REQUIRE(cudaGetLastError() == cudaErrorMisalignedAddress);
    faulty().misaligned_shared(out.data());
    require_report(Fault::misaligned, "misaligned_shared");
  });
}

TEST_CASE("asynchronous copies: reading before any wait is reported", "[emulator]") {
  expect_copy(faulty().copy_not_waited, Fault::async_copy, "copy_not_waited.read",
              "copy_not_waited.copy");
}

TEST_CASE("asynchronous copies: waiting one group short is reported", "[emulator]") {
  expect_copy(faulty().copy_waited_one_short, Fault::async_copy, "copy_one_short.read",
              "copy_one_short.copy");
}

TEST_CASE("asynchronous copies: waiting without a barrier leaves a race", "[emulator]") {
  in_every_schedule([&] {
    DeviceBuffer<float> in(checked_device(), counting(1024));
    DeviceBuffer<float> out(checked_device(), 1024);
    faulty().copy_without_barrier(in.data(), out.data());
    // By the order of threads the reader comes before the copy, or after its thread has waited.
    require_report(Fault::race, "copy_no_barrier.read", "copy_no_barrier.copy");
  });
}

TEST_CASE("asynchronous copies: copying over what others still read is a race", "[emulator]") {
  expect_copy(faulty().copy_into_used_tile, Fault::race, "copy_used_tile.read",
              "copy_used_tile.copy");
}

TEST_CASE("asynchronous copies: without a wait the fast build reads NaN", "[emulator]") {
  in_every_schedule([&] {
    DeviceBuffer<float> in(device(Backend::emulated), counting(1024));
    DeviceBuffer<float> out(device(Backend::emulated), 1024);
    emulated::faulty_kernels().copy_not_waited(in.data(), out.data());
    require_no_report();  // nothing is checked there: the numbers must tell
    for (int i = 0; i < 32; ++i) {
      const float value = out.to_host()[i];
      REQUIRE(value != value);
    }
  });
}
