// Exercise 05_slot_mapping: BlockTable::slot() and slot_mapping().
#include <utility>
#include <vector>

#include "course/support.hpp"
#include "kv/cache/block_table.hpp"

namespace {

// A sequence's blocks in random order, and the slot of each token, counted place by place.
struct Sequence {
  explicit Sequence(std::uint64_t salt) : random(kv_course::random_numbers(salt)) {
    const std::int64_t num_blocks = kv_course::pick(random, 5, 9);
    for (std::int32_t block = 0; block < num_blocks; ++block) table.blocks.push_back(block);
    for (std::size_t i = table.blocks.size() - 1; i > 0; --i)
      std::swap(table.blocks[i], table.blocks[static_cast<std::size_t>(
                                     kv_course::pick(random, 0, static_cast<std::int64_t>(i)))]);
    table.blocks.pop_back();  // one belongs to somebody else
    for (const kv::BlockId block : table.blocks)
      for (std::int64_t place = 0; place < table.block_size; ++place)
        slots.push_back(std::int64_t{block} * table.block_size + place);
  }

  std::mt19937_64 random;
  kv::BlockTable table{static_cast<std::int32_t>(kv_course::pick(random, 3, 9)), {}, 0};
  std::vector<std::int64_t> slots;
};

}  // namespace

TEST_CASE("a token lies in its block, at its place") {
  const Sequence s(1);
  std::vector<std::int64_t> got;
  for (std::int64_t t = 0; t < std::ssize(s.slots); ++t) got.push_back(s.table.slot(t));
  kv_course::expect_close("slot of each token", {std::ssize(s.slots)}, got, s.slots);
}

TEST_CASE("the last token of a full block is still in that block") {
  const Sequence s(2);
  std::int64_t end = 0;  // tokens up to the end of a block
  for (const kv::BlockId block : s.table.blocks) {
    end += s.table.block_size;
    INFO("token " << end - 1 << ", blocks of " << s.table.block_size);
    CHECK(s.table.slot(end - 1) ==
          std::int64_t{block} * s.table.block_size + s.table.block_size - 1);
  }
}

TEST_CASE("the mapping has one slot for each new token") {
  Sequence s(3);
  const std::int64_t all = std::ssize(s.slots);
  for (int i = 0; i < 10; ++i) {
    const std::int64_t first = kv_course::pick(s.random, 1, all - 2);
    const std::int64_t num_tokens = kv_course::pick(s.random, 1, all - first);
    s.table.length = first;
    const std::vector<std::int64_t> expected(s.slots.begin() + first,
                                             s.slots.begin() + first + num_tokens);
    kv_course::expect_close("slots of tokens from " + std::to_string(first) + " on", {num_tokens},
                            kv::slot_mapping(s.table, first, num_tokens), expected);
  }
  CHECK(kv::slot_mapping(s.table, 1, 0).empty());
}

TEST_CASE("a slot has 64 bits") {
  auto random = kv_course::random_numbers(4);
  constexpr std::int32_t kBlockSize = 1 << 15;
  const auto block = static_cast<kv::BlockId>(kv_course::pick(random, 1 << 17, 1 << 20));
  const std::int64_t place = kv_course::pick(random, 0, kBlockSize - 1);
  const kv::BlockTable table{kBlockSize, {7, block}, 0};
  CHECK(table.slot(kBlockSize + place) == std::int64_t{block} * kBlockSize + place);
  CHECK(kv::slot_mapping(table, kBlockSize + place, 1) ==
        std::vector<std::int64_t>{std::int64_t{block} * kBlockSize + place});
}
