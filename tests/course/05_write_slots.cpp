// Exercise 05_write_slots: write_slots_kernel.
#include <algorithm>

#include "cache/block_kernels.hpp"
#include "course/kernel_support.hpp"

namespace {

using kv::emulator::Traffic;

// New rows, their slots in random order, and a cache that holds other numbers before.
struct Rows {
  Rows(std::uint64_t salt, std::int64_t row_elements_in)
      : random(kv_course::random_numbers(salt)), row_elements(row_elements_in) {
    k_rows = kv_course::random_floats(random, num_rows * row_elements);
    v_rows = kv_course::random_floats(random, num_rows * row_elements);
    k = kv_course::random_floats(random, num_slots * row_elements);
    v = kv_course::random_floats(random, num_slots * row_elements);
    std::vector<std::int64_t> free;
    for (std::int64_t slot = 1; slot < num_slots; ++slot) free.push_back(slot);
    for (std::int64_t i = 0; i < num_rows; ++i) {
      const std::int64_t at = kv_course::pick(random, 0, std::ssize(free) - 1);
      slots.push_back(free[static_cast<std::size_t>(at)]);
      free.erase(free.begin() + at);
    }
  }

  // What the cache must hold afterwards; `before` is k or v, `rows` its new rows.
  std::vector<float> expected(std::vector<float> before, const std::vector<float>& rows) const {
    for (std::size_t i = 0; i < slots.size(); ++i)
      if (slots[i] >= 0)
        std::copy_n(rows.begin() + static_cast<std::ptrdiff_t>(i) * row_elements, row_elements,
                    before.begin() + slots[i] * row_elements);
    return before;
  }
  // Runs the kernel and compares the whole cache.
  kv::emulator::Counters write_and_check() {
    const auto device_k_rows = kv_course::on_device(k_rows),
               device_v_rows = kv_course::on_device(v_rows);
    const auto device_slots = kv_course::on_device(slots);
    auto device_k = kv_course::on_device(k), device_v = kv_course::on_device(v);
    kv::WriteSlots launch;
    launch.k_rows = device_k_rows.data();
    launch.v_rows = device_v_rows.data();
    launch.slots = device_slots.data();
    launch.k = device_k.data();
    launch.v = device_v.data();
    launch.num_rows = num_rows;
    launch.row_elements = static_cast<int>(row_elements);
    const kv::emulator::Counters counters =
        kv_course::run_checked([&] { kv::checked::launch_write_slots(launch); });
    kv_course::expect_close("k", {num_slots, row_elements}, device_k.to_host(),
                            expected(k, k_rows));
    kv_course::expect_close("v", {num_slots, row_elements}, device_v.to_host(),
                            expected(v, v_rows));
    return counters;
  }

  std::mt19937_64 random;
  std::int64_t row_elements;
  std::int64_t num_rows = kv_course::pick(random, 9, 14);
  std::int64_t num_slots = num_rows + kv_course::pick(random, 5, 20);
  std::vector<std::int64_t> slots;  // [num_rows], none of them 0
  std::vector<float> k_rows, v_rows, k, v;
};

// Elements of a row: whole pieces of four, and more of them in all rows than a CTA has threads.
std::int64_t whole_pieces(std::uint64_t salt) {
  auto random = kv_course::random_numbers(salt);
  return 4 * kv_course::pick(random, 30, 40);
}

}  // namespace

TEST_CASE("each row of K and of V goes to its slot") {
  Rows rows(1, whole_pieces(11));
  rows.write_and_check();
}

TEST_CASE("a row whose slot is -1 is dropped") {
  Rows rows(2, whole_pieces(12));
  const std::int64_t first = kv_course::pick(rows.random, 0, rows.num_rows - 2);
  for (const std::int64_t dropped : {first, rows.num_rows - 1})
    rows.slots[static_cast<std::size_t>(dropped)] = -1;
  rows.write_and_check();
}

TEST_CASE("slot 0 is a slot like any other") {
  Rows rows(3, whole_pieces(13));
  rows.slots[static_cast<std::size_t>(kv_course::pick(rows.random, 0, rows.num_rows - 1))] = 0;
  rows.write_and_check();
}

TEST_CASE("rows that are no multiple of 16 bytes are written too") {
  Rows rows(4, whole_pieces(14) + 1 + 2 * static_cast<std::int64_t>(kv_course::seed() % 2));
  rows.write_and_check();
}

TEST_CASE("each element is read once and written once") {
  Rows rows(5, whole_pieces(15));
  const kv::emulator::Counters counters = rows.write_and_check();
  const auto num_pieces = static_cast<std::uint64_t>(2 * rows.num_rows * rows.row_elements / 4);
  CHECK(counters.of(Traffic::global_store).bytes == 16 * num_pieces);
  // Besides, each thread that has a piece reads the slot of its row.
  CHECK(counters.of(Traffic::global_load).bytes <= (16 + sizeof(std::int64_t)) * num_pieces);
}
