// Exercise 05_copy_on_write: BlockAllocator::shares_last_block() and copy_last_block().
#include <algorithm>
#include <vector>

#include "course/support.hpp"
#include "kv/cache/block_allocator.hpp"

namespace {

using kv::BlockId;

constexpr BlockId kNumBlocks = 30;
constexpr std::int32_t kNothing = -1;

// Sequences and a memory that holds one number for each slot.
struct World {
  explicit World(std::uint64_t salt) : random(kv_course::random_numbers(salt)) {}

  // Appends tokens as an engine does: reserve, copy what must be copied, write.
  void append(kv::BlockTable& table, std::int64_t num_tokens, std::int32_t name) {
    const std::size_t first = copies.size();
    REQUIRE(allocator.reserve(table, num_tokens, copies));
    for (std::size_t i = first; i < copies.size(); ++i)
      std::copy_n(memory.begin() + std::int64_t{copies[i].from} * block_size, copies[i].num_tokens,
                  memory.begin() + std::int64_t{copies[i].to} * block_size);
    for (std::int64_t t = table.length; t < table.length + num_tokens; ++t)
      memory[static_cast<std::size_t>(table.slot(t))] = name + static_cast<std::int32_t>(t);
    table.length += num_tokens;
  }

  std::vector<std::int32_t> read(const kv::BlockTable& table) const {
    std::vector<std::int32_t> tokens;
    for (std::int64_t t = 0; t < table.length; ++t)
      tokens.push_back(memory[static_cast<std::size_t>(table.slot(t))]);
    return tokens;
  }

  std::mt19937_64 random;
  std::int32_t block_size = static_cast<std::int32_t>(kv_course::pick(random, 4, 8));
  std::int64_t in_last = kv_course::pick(random, 1, block_size - 2);  // tokens in a partial block
  std::int64_t num_full = kv_course::pick(random, 1, 4);
  kv::BlockAllocator allocator{kNumBlocks, block_size};
  kv::BlockTable table{block_size, {}, 0};
  std::vector<kv::BlockCopy> copies;
  std::vector<std::int32_t> memory =
      std::vector<std::int32_t>(static_cast<std::size_t>(kNumBlocks * block_size), kNothing);
};

}  // namespace

TEST_CASE("exactly one block is copied, by the first that writes") {
  World w(1);
  w.append(w.table, w.num_full * w.block_size + w.in_last, 1000);
  const BlockId last = w.table.blocks.back();
  kv::BlockTable child = w.allocator.fork(w.table);
  w.append(child, 1, 2000);
  REQUIRE(w.copies.size() == 1);
  CHECK(w.copies[0].from == last);
  CHECK(w.copies[0].to == child.blocks.back());
  CHECK(w.copies[0].to != last);
  w.append(w.table, 1, 3000);  // it is alone now
  CHECK(w.copies.size() == 1);
}

TEST_CASE("only the tokens in use are copied") {
  World w(2);
  w.append(w.table, w.num_full * w.block_size + w.in_last, 1000);
  kv::BlockTable child = w.allocator.fork(w.table);
  w.append(child, w.block_size, 2000);
  REQUIRE(w.copies.size() == 1);
  CHECK(w.copies[0].num_tokens == w.in_last);
}

TEST_CASE("each sequence reads its own tokens") {
  World w(3);
  const std::int64_t length = w.num_full * w.block_size + w.in_last;
  w.append(w.table, length, 1000);
  kv::BlockTable child = w.allocator.fork(w.table);
  w.append(child, w.block_size, 2000);
  w.append(w.table, w.block_size, 3000);
  std::vector<std::int32_t> parents, childs;
  for (std::int64_t t = 0; t < length + w.block_size; ++t) {
    parents.push_back(static_cast<std::int32_t>((t < length ? 1000 : 3000) + t));
    childs.push_back(static_cast<std::int32_t>((t < length ? 1000 : 2000) + t));
  }
  CHECK(w.read(w.table) == parents);
  CHECK(w.read(child) == childs);
  CHECK(w.allocator.pool().num_holders(w.copies.at(0).from) == 1);
  CHECK(w.allocator.pool().num_holders(w.copies.at(0).to) == 1);
}

TEST_CASE("full blocks and blocks of its own are written in place") {
  World w(4);
  w.append(w.table, w.num_full * w.block_size, 1000);
  kv::BlockTable child = w.allocator.fork(w.table);
  w.append(child, 1, 2000);
  w.append(child, 1, 2000);
  CHECK(w.copies.empty());
  CHECK(w.allocator.pool().num_free() == kNumBlocks - w.num_full - 1);
  // Where there is something to copy, it is copied: else nothing would be easy.
  kv::BlockTable grandchild = w.allocator.fork(child);
  w.append(grandchild, 1, 3000);
  CHECK(w.copies.size() == 1);
}

TEST_CASE("reserved blocks behind the last token stay") {
  World w(5);
  w.append(w.table, w.num_full * w.block_size + w.in_last, 1000);
  REQUIRE(w.allocator.reserve(w.table, 3 * w.block_size, w.copies));
  std::vector<BlockId> before = w.table.blocks;
  const kv::BlockTable child = w.allocator.fork(w.table);
  w.append(w.table, 1, 2000);
  REQUIRE(w.copies.size() == 1);
  const auto place = static_cast<std::size_t>(w.num_full);
  CHECK(w.copies[0].from == before[place]);
  before[place] = w.copies[0].to;
  CHECK(w.table.blocks == before);
}
