// Exercise 05_truncate: BlockAllocator::truncate().
#include <algorithm>
#include <stdexcept>
#include <vector>

#include "course/support.hpp"
#include "kv/cache/block_allocator.hpp"

namespace {

using kv::BlockId;

constexpr BlockId kNumBlocks = 60;

// A sequence of `num_blocks` full blocks and `more` tokens; block size from the seed.
struct World {
  World(std::uint64_t salt, std::int64_t num_blocks, std::int64_t more)
      : random(kv_course::random_numbers(salt)) {
    std::vector<kv::BlockCopy> copies;
    const std::int64_t length = num_blocks * block_size + more;
    REQUIRE(allocator.reserve(table, length, copies));
    table.length = length;
  }

  std::mt19937_64 random;
  std::int32_t block_size = static_cast<std::int32_t>(kv_course::pick(random, 3, 8));
  kv::BlockAllocator allocator{kNumBlocks, block_size};
  kv::BlockTable table{block_size, {}, 0};
};

}  // namespace

TEST_CASE("blocks that hold no token go back to the pool") {
  World w(1, 7, 1);
  const std::vector<BlockId> before = w.table.blocks;
  const std::int64_t kept = kv_course::pick(w.random, 2, 5);
  std::vector<BlockId> freed;
  w.allocator.truncate(w.table, kept * w.block_size, &freed);
  CHECK(w.table.length == kept * w.block_size);
  CHECK(w.table.blocks == std::vector<BlockId>(before.begin(), before.begin() + kept));
  CHECK(w.allocator.pool().num_free() == kNumBlocks - kept);
  std::ranges::sort(freed);
  CHECK(freed == std::vector<BlockId>(before.begin() + kept, before.end()));
}

TEST_CASE("a block that still holds a token stays") {
  World w(2, 4, 0);
  const BlockId second = w.table.blocks[1];
  w.allocator.truncate(w.table, w.block_size + 1);
  REQUIRE(w.table.blocks.size() == 2);
  CHECK(w.table.blocks[1] == second);
  CHECK(w.allocator.pool().num_holders(second) == 1);
  CHECK(w.allocator.pool().num_free() == kNumBlocks - 2);
}

TEST_CASE("what another sequence holds is not freed") {
  World w(3, 4, 2);
  const kv::BlockTable other = w.allocator.fork(w.table);
  const std::int64_t num_free = w.allocator.pool().num_free();
  std::vector<BlockId> freed;
  w.allocator.truncate(w.table, 0, &freed);
  CHECK(w.table.blocks.empty());
  CHECK(freed.empty());
  CHECK(w.allocator.pool().num_free() == num_free);
  for (const BlockId block : other.blocks) CHECK(w.allocator.pool().num_holders(block) == 1);
}

TEST_CASE("blocks that were only reserved go back too") {
  World w(4, 2, 1);
  std::vector<kv::BlockCopy> copies;
  REQUIRE(w.allocator.reserve(w.table, 4 * w.block_size, copies));
  w.allocator.truncate(w.table, w.table.length);
  CHECK(w.table.length == 2 * w.block_size + 1);
  CHECK(w.table.blocks.size() == 3);
  CHECK(w.allocator.pool().num_free() == kNumBlocks - 3);
}

TEST_CASE("more tokens than there are is refused") {
  World w(5, 2, 1);
  const std::int64_t length = w.table.length;
  CHECK_THROWS_AS(w.allocator.truncate(w.table, length + 1), std::invalid_argument);
  CHECK_THROWS_AS(w.allocator.truncate(w.table, -1), std::invalid_argument);
  CHECK(w.table.length == length);
  CHECK(w.table.blocks.size() == 3);
}
