// Limits of launches, errors that nobody asked for, and the choice of a device.
#include <catch2/matchers/catch_matchers_string.hpp>

#include "kv/check.hpp"
#include "support.hpp"

using namespace kv;
using namespace kv::test;
using emulator::Fault;

namespace {

const FaultyKernels* const kTables[] = {&emulated::faulty_kernels(), &checked::faulty_kernels()};

}  // namespace

TEST_CASE("limits: 1024 threads run, 1025 and 0 are refused", "[emulator]") {
  for (const FaultyKernels* table : kTables) {
    cudaGetLastError();
    table->too_many_threads(1024);
    require_no_report();
    for (const unsigned threads : {1025u, 0u}) {
      table->too_many_threads(threads);
      require_report(Fault::launch_limit, "too_many_threads");
      REQUIRE(cudaGetLastError() == cudaErrorInvalidConfiguration);
    }
  }
}

TEST_CASE("limits: shared memory over 48 KiB must be allowed, over 227 KiB is refused",
          "[emulator]") {
  for (const FaultyKernels* table : kTables) {
    cudaGetLastError();
    table->too_much_shared(48 * 1024, false);
    require_no_report();
    table->too_much_shared(48 * 1024 + 1, false);
    require_report(Fault::launch_limit, "too_much_shared");
    REQUIRE(cudaGetLastError() == cudaErrorInvalidValue);
    table->too_much_shared(227 * 1024, true);
    require_no_report();
    table->too_much_shared(227 * 1024 + 1, true);
    require_report(Fault::launch_limit, "too_much_shared");
    cudaGetLastError();
  }
}

TEST_CASE("errors: a launch after an unchecked error is refused and says so", "[emulator]") {
  for (const FaultyKernels* table : kTables) {
    cudaGetLastError();
    table->launch_twice_unchecked();
    require_report(Fault::unchecked_error, "launch_twice_unchecked");
    REQUIRE(all_reports().find("2048 threads per CTA") != std::string::npos);
    REQUIRE(cudaGetLastError() == cudaErrorInvalidConfiguration);
    REQUIRE(cudaGetLastError() == cudaSuccess);
  }
}

TEST_CASE("errors: synchronising the device throws the text of the report", "[emulator]") {
  cudaGetLastError();
  checked::faulty_kernels().too_many_threads(4096);
  REQUIRE_THROWS_WITH(checked_device().synchronize(),
                      Catch::Matchers::ContainsSubstring("4096 threads per CTA; at most 1024"));
  REQUIRE_NOTHROW(checked_device().synchronize());
}

TEST_CASE("device: the option chooses, and says why when it cannot", "[emulator]") {
  REQUIRE(choose_backend("emulated") == Backend::emulated);
  REQUIRE(choose_backend("checked") == Backend::checked);
  REQUIRE(choose_backend("cpu") == Backend::cpu);
  REQUIRE(choose_backend("auto") == (has_gpu() ? Backend::gpu : Backend::emulated));
  REQUIRE_THROWS_AS(choose_backend("tpu"), InputError);
  REQUIRE_THROWS_AS(device(Backend::cpu), std::invalid_argument);
  if (!has_gpu())
    REQUIRE_THROWS_WITH(choose_backend("gpu"), Catch::Matchers::ContainsSubstring("no GPU"));
}

TEST_CASE("buffers: they move, copy both ways and start as NaN", "[emulator]") {
  DeviceBuffer<float> a(checked_device(), 3);
  for (const float value : a.to_host()) REQUIRE(value != value);
  a.copy_from(std::vector<float>{1, 2, 3});
  DeviceBuffer<float> b = std::move(a);
  REQUIRE(b.to_host() == std::vector<float>{1, 2, 3});
  REQUIRE(a.size() == 0);
  REQUIRE_THROWS_AS(b.copy_from(std::vector<float>(2)), std::invalid_argument);
  DeviceBuffer<float> none(checked_device(), 0);
  REQUIRE(none.to_host().empty());
}
