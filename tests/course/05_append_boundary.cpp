// Exercise 05_append_boundary: BlockAllocator::reserve().
#include <numeric>
#include <set>
#include <vector>

#include "course/support.hpp"
#include "kv/cache/block_allocator.hpp"

namespace {

using kv::BlockId;

// A pool and an empty sequence; the block size comes from the seed.
struct World {
  explicit World(std::uint64_t salt, BlockId blocks = 12)
      : random(kv_course::random_numbers(salt)), num_blocks(blocks) {}

  // Appends tokens. \return whether there was room
  bool append(std::int64_t num_tokens) {
    if (!allocator.reserve(table, num_tokens, copies)) return false;
    REQUIRE(table.num_slots() >= table.length + num_tokens);
    table.length += num_tokens;
    return true;
  }

  std::mt19937_64 random;
  BlockId num_blocks;
  std::int32_t block_size = static_cast<std::int32_t>(kv_course::pick(random, 3, 8));
  kv::BlockAllocator allocator{num_blocks, block_size};
  kv::BlockTable table{block_size, {}, 0};
  std::vector<kv::BlockCopy> copies;
};

}  // namespace

TEST_CASE("a block is taken at the first token behind a full one, not before") {
  World w(1);
  // Token by token, beyond two boundaries.
  std::size_t expected = 0;
  for (std::int64_t length = 0; length < 3 * w.block_size; ++length) {
    if (length % w.block_size == 0) ++expected;
    REQUIRE(w.append(1));
    INFO("a sequence of " << length + 1 << " tokens in blocks of " << w.block_size);
    REQUIRE(w.table.blocks.size() == expected);
  }
  // And many at once: to exactly a boundary, then one beyond.
  World many(2);
  REQUIRE(many.append(1));
  REQUIRE(many.append(4 * many.block_size - 1));
  CHECK(many.table.blocks.size() == 4);
  REQUIRE(many.append(2 * many.block_size + 1));
  CHECK(many.table.blocks.size() == 7);
  CHECK(many.allocator.pool().num_free() == many.num_blocks - 7);
}

TEST_CASE("no two tokens share a slot") {
  World a(3);
  kv::BlockTable second{a.block_size, {}, 0};
  std::set<kv::Slot> slots;
  const std::int64_t length = kv_course::pick(a.random, 12, 15);  // 2 tables of at most 5 blocks
  for (std::int64_t t = 0; t < length; ++t) {
    for (kv::BlockTable* table : {&a.table, &second}) {
      REQUIRE(a.allocator.reserve(*table, 1, a.copies));
      REQUIRE(table->num_slots() > t);
      ++table->length;
      slots.insert(table->slot(t));
    }
  }
  CHECK(static_cast<std::int64_t>(slots.size()) == 2 * length);
}

TEST_CASE("when blocks run out nothing has changed") {
  World w(5);
  REQUIRE(w.append(10 * w.block_size - 1));
  const std::vector<BlockId> before = w.table.blocks;
  CHECK_FALSE(w.allocator.reserve(w.table, 2 * w.block_size + 2, w.copies));
  CHECK(w.table.blocks == before);
  CHECK(w.allocator.pool().num_free() == 2);
  // A copy of a shared block needs a block too: with it there are three, and two are free.
  const kv::BlockTable child = w.allocator.fork(w.table);
  CHECK_FALSE(w.allocator.reserve(w.table, 2 * w.block_size + 1, w.copies));
  CHECK(w.table.blocks == before);
  CHECK(w.copies.empty());
  CHECK(w.allocator.pool().num_free() == 2);
  for (const BlockId block : child.blocks) CHECK(w.allocator.pool().num_holders(block) == 2);
  // One block less fits.
  CHECK(w.allocator.reserve(w.table, w.block_size + 1, w.copies));
  CHECK(w.copies.size() == 1);
  CHECK(w.allocator.pool().num_free() == 0);
}

TEST_CASE("asking again takes nothing") {
  World w(6);
  REQUIRE(w.append(w.block_size + 1));
  REQUIRE(w.allocator.reserve(w.table, 3 * w.block_size, w.copies));
  const std::vector<BlockId> before = w.table.blocks;
  REQUIRE(before.size() == 5);
  CHECK(w.allocator.reserve(w.table, 3 * w.block_size, w.copies));
  CHECK(w.allocator.reserve(w.table, 1, w.copies));
  CHECK(w.allocator.reserve(w.table, 0, w.copies));
  CHECK(w.table.blocks == before);
  CHECK(w.table.length == w.block_size + 1);
  CHECK(w.allocator.pool().num_free() == w.num_blocks - 5);
}

TEST_CASE("blocks that only the prefix index holds can be taken") {
  World w(7, 6);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(4 * w.block_size));
  std::iota(tokens.begin(), tokens.end(), 1);
  kv::BlockTable past{w.block_size, {}, 0};
  REQUIRE(w.allocator.reserve(past, 4 * w.block_size, w.copies));
  REQUIRE(past.blocks.size() == 4);
  past.length = 4 * w.block_size;
  w.allocator.publish(past, tokens);
  w.allocator.truncate(past, 0);
  REQUIRE(w.allocator.pool().num_free() == 2);
  std::vector<BlockId> evicted;
  CHECK(w.allocator.reserve(w.table, 5 * w.block_size, w.copies, -1, &evicted));
  CHECK(w.table.blocks.size() == 5);
  CHECK(evicted.size() == 3);
  CHECK(w.allocator.index().size() == 1);
}
