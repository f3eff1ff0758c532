// Exercise 05_copy_blocks: copy_blocks_kernel.
#include <cstddef>

#include "cache/block_kernels.hpp"
#include "course/kernel_support.hpp"

namespace {

using kv::emulator::Traffic;

// Some arrays of floats whose ranges are copied, and what must be in them afterwards.
struct Arrays {
  explicit Arrays(std::uint64_t salt) {
    auto random = kv_course::random_numbers(salt);
    num_floats = 8 * kv_course::pick(random, 200, 250);
    for (std::int64_t i = kv_course::pick(random, 3, 6); i > 0; --i) {
      before.push_back(kv_course::random_floats(random, num_floats));
      arrays.push_back(kv_course::on_device(before.back()));
      pointers.push_back(arrays.back().data());
    }
    // 100 floats at most from the first half to the second, the last range shorter than a CTA.
    for (const std::int64_t vectors : {kv_course::pick(random, 20, 25), std::int64_t{1}}) {
      const std::int64_t from = 16 * kv_course::pick(random, 0, 9), shift = 2 * num_floats;
      ranges.push_back({from + moved, from + moved + shift, 16 * vectors});
      moved += 640;
    }
    expected = before;
    for (auto& array : expected)
      for (const kv::CopyRange& range : ranges)
        for (std::int64_t i = 0; i < range.num_bytes / 4; ++i)
          array[static_cast<std::size_t>(range.to / 4 + i)] =
              array[static_cast<std::size_t>(range.from / 4 + i)];
  }

  kv::emulator::Counters copy() {
    const auto device_pointers = kv_course::on_device(pointers);
    const auto device_ranges = kv_course::on_device(ranges);
    kv::CopyBlocks launch;
    launch.arrays = device_pointers.data();
    launch.ranges = device_ranges.data();
    launch.num_arrays = static_cast<int>(pointers.size());
    launch.num_ranges = static_cast<int>(ranges.size());
    launch.alignment = 16;
    return kv_course::run_checked([&] { kv::checked::launch_copy_blocks(launch); });
  }

  std::int64_t num_floats = 0, moved = 0;
  std::vector<std::vector<float>> before, expected;
  std::vector<kv::DeviceBuffer<float>> arrays;
  std::vector<void*> pointers;
  std::vector<kv::CopyRange> ranges;
};

}  // namespace

TEST_CASE("every range of every array is copied") {
  Arrays a(1);
  a.copy();
  for (std::size_t i = 0; i < a.arrays.size(); ++i) {
    const std::vector<float> got = a.arrays[i].to_host();
    for (const kv::CopyRange& range : a.ranges) {
      const auto first = static_cast<std::size_t>(range.to / 4);
      const auto count = static_cast<std::size_t>(range.num_bytes / 4);
      kv_course::expect_close("array " + std::to_string(i) + " from " + std::to_string(first),
                              {range.num_bytes / 4}, std::span(got).subspan(first, count),
                              std::span(a.expected[i]).subspan(first, count));
    }
  }
}

TEST_CASE("each byte is read once and written once") {
  Arrays a(2);
  const kv::emulator::Counters counters = a.copy();
  std::uint64_t bytes = 0;
  for (const kv::CopyRange& range : a.ranges)
    bytes += static_cast<std::uint64_t>(range.num_bytes) * a.arrays.size();
  CHECK(counters.of(Traffic::global_store).bytes == bytes);
  // Besides, all 256 threads of a CTA read their range and the address of their array.
  const std::uint64_t overhead =
      a.ranges.size() * a.arrays.size() * 256 * (sizeof(kv::CopyRange) + sizeof(void*));
  CHECK(counters.of(Traffic::global_load).bytes <= bytes + overhead);
}

TEST_CASE("what lies behind a range stays as it is") {
  Arrays a(3);
  a.copy();
  for (std::size_t i = 0; i < a.arrays.size(); ++i)
    kv_course::expect_close("array " + std::to_string(i), {a.num_floats}, a.arrays[i].to_host(),
                            a.expected[i]);
}
