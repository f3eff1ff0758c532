// Kernels without bugs compute the right thing in both builds and give no report.
#include <bit>

#include "support.hpp"

using namespace kv;
using namespace kv::test;

namespace {

// Calls body(table, device) for both builds in every schedule.
template <typename Body>
void in_both_builds(Body body) {
  for (const Backend backend : {Backend::emulated, Backend::checked})
    in_every_schedule([&] {
      INFO("build " << name(backend));
      body(backend == Backend::checked ? checked::correct_kernels() : emulated::correct_kernels(),
           device(backend));
      require_no_report();
    });
}

}  // namespace

TEST_CASE("reduction: barriers and shared memory sum what they should", "[emulator]") {
  in_both_builds([](const CorrectKernels& kernels, Device& where) {
    DeviceBuffer<float> in(where, counting(5 * 256));
    DeviceBuffer<float> out(where, 5);
    kernels.sum_by_tree(in.data(), out.data(), 5);
    const std::vector<float> sums = out.to_host();
    for (int c = 0; c < 5; ++c) REQUIRE(sums[c] == 256.0f * (256.0f * c + 127.5f));
  });
}

TEST_CASE("reduction: shuffles sum what they should for any length", "[emulator]") {
  for (const int count : {1, 31, 32, 33, 100, 1000, 1024})
    in_both_builds([&](const CorrectKernels& kernels, Device& where) {
      DeviceBuffer<float> in(where, counting(count));
      DeviceBuffer<float> out(where, 1);
      kernels.sum_by_shuffle(in.data(), out.data(), count);
      REQUIRE(out.to_host()[0] == static_cast<float>(count * (count - 1) / 2));
    });
}

TEST_CASE("transpose: a tile in shared memory transposes any shape", "[emulator]") {
  for (const auto& [rows, columns] : {std::pair(64, 32), std::pair(33, 65), std::pair(1, 7)})
    for (const int padding : {0, 1})
      in_both_builds([&](const CorrectKernels& kernels, Device& where) {
        DeviceBuffer<float> in(where, counting(rows * columns));
        DeviceBuffer<float> out(where, rows * columns);
        kernels.transpose(in.data(), out.data(), rows, columns, padding);
        const std::vector<float> result = out.to_host();
        for (int r = 0; r < rows; ++r)
          for (int c = 0; c < columns; ++c)
            REQUIRE(result[c * rows + r] == static_cast<float>(r * columns + c));
      });
}

TEST_CASE("asynchronous copies: two stages in turn deliver every element", "[emulator]") {
  in_both_builds([](const CorrectKernels& kernels, Device& where) {
    DeviceBuffer<float> in(where, counting(5 * 512));
    DeviceBuffer<float> out(where, 5 * 512);
    kernels.double_buffered(in.data(), out.data(), 5 * 512);
    const std::vector<float> result = out.to_host();
    for (int i = 0; i < 5 * 512; ++i)
      REQUIRE(result[i] == 2.0f * static_cast<float>(i / 512 * 512 + (i + 1) % 512));
  });
}

TEST_CASE("atomics: a histogram counts every value once", "[emulator]") {
  in_both_builds([](const CorrectKernels& kernels, Device& where) {
    std::vector<int> values(1000);
    for (int i = 0; i < 1000; ++i) values[i] = i % 7;
    DeviceBuffer<int> in(where, values);
    DeviceBuffer<int> bins(where, std::vector<int>(10));
    kernels.histogram(in.data(), bins.data(), 1000, 10);
    REQUIRE(bins.to_host() == std::vector<int>{143, 143, 143, 143, 143, 143, 142, 0, 0, 0});
  });
}

TEST_CASE("atomics: a lock lets one thread in at a time", "[emulator]") {
  in_both_builds([](const CorrectKernels& kernels, Device& where) {
    DeviceBuffer<int> lock(where, std::vector<int>(1));
    DeviceBuffer<int> counter(where, std::vector<int>(1));
    kernels.locked_count(lock.data(), counter.data());
    REQUIRE(counter.to_host()[0] == 16);  // 2 CTAs of 8 warps
  });
}

TEST_CASE("warp operations: shuffles and votes follow the rules of CUDA", "[emulator]") {
  in_both_builds([](const CorrectKernels& kernels, Device& where) {
    DeviceBuffer<int> out(where, 256);
    kernels.exchange(out.data());
    const std::vector<int> result = out.to_host();
    for (int lane = 0; lane < 32; ++lane) {
      const int* got = &result[lane * 8];
      REQUIRE(got[0] == 105);
      REQUIRE(got[1] == 100 + (lane < 3 ? lane : lane - 3));
      REQUIRE(got[2] == 100 + (lane % 8 < 5 ? lane + 3 : lane));
      REQUIRE(got[3] == 100 + (lane ^ 9));
      REQUIRE(got[4] == 1);
      REQUIRE(got[5] == 0);
      REQUIRE(got[6] == 0x49249249);
      REQUIRE(got[7] == (lane < 16 ? 100 + (lane ^ 1) : 131));
    }
  });
}

TEST_CASE("barriers: count, and, or combine the predicates of all threads", "[emulator]") {
  for (const int limit : {0, 1, 37, 100})
    in_both_builds([&](const CorrectKernels& kernels, Device& where) {
      DeviceBuffer<int> out(where, 300);
      kernels.barrier_votes(out.data(), 100, limit);
      const std::vector<int> result = out.to_host();
      for (int i = 0; i < 100; ++i) {
        REQUIRE(result[3 * i] == limit);
        REQUIRE((result[3 * i + 1] != 0) == (limit == 100));
        REQUIRE((result[3 * i + 2] != 0) == (limit > 0));
      }
    });
}

TEST_CASE("warp operations: __syncwarp alone orders shared memory inside a warp", "[emulator]") {
  in_both_builds([](const CorrectKernels& kernels, Device& where) {
    DeviceBuffer<float> out(where, 64);
    kernels.warp_exchange(out.data());
    const std::vector<float> result = out.to_host();
    for (int i = 0; i < 64; ++i)
      REQUIRE(result[i] == static_cast<float>(i / 32 * 32 + (i + 1) % 32 + 2));
  });
}

TEST_CASE("CTAs: the results do not depend on how many system threads share them", "[emulator]") {
  for (const int num_os_threads : {1, 2, 0}) {
    emulator::options() = {};
    emulator::options().num_os_threads = num_os_threads;
    Device& where = device(Backend::checked);
    DeviceBuffer<float> in(where, counting(64 * 256));
    DeviceBuffer<float> out(where, 64);
    checked::correct_kernels().sum_by_tree(in.data(), out.data(), 64);
    require_no_report();
    for (int c = 0; c < 64; ++c) REQUIRE(out.to_host()[c] == 256.0f * (256.0f * c + 127.5f));
  }
  emulator::options() = {};
}
