// Exercise 05_free_blocks: BlockPool::share() and BlockPool::release().
#include <algorithm>
#include <stdexcept>
#include <vector>

#include "course/support.hpp"
#include "kv/cache/block_pool.hpp"

namespace {

using kv::BlockId;

// A pool whose blocks are all taken; how many comes from the seed.
struct FullPool {
  explicit FullPool(std::uint64_t salt) : random(kv_course::random_numbers(salt)) {
    while (pool.num_free() > 0) blocks.push_back(*pool.allocate());
    // In a random order: a pool that counts up again must not look right.
    for (std::size_t i = blocks.size() - 1; i > 0; --i)
      std::swap(blocks[i], blocks[static_cast<std::size_t>(
                               kv_course::pick(random, 0, static_cast<std::int64_t>(i)))]);
    // Nor a pool that is last in, first out.
    if (std::is_sorted(blocks.begin(), blocks.end())) std::swap(blocks.front(), blocks.back());
  }

  std::mt19937_64 random;
  kv::BlockPool pool{static_cast<BlockId>(kv_course::pick(random, 5, 20))};
  std::vector<BlockId> blocks;
};

}  // namespace

TEST_CASE("a block stays until its last holder lets go") {
  FullPool p(1);
  const BlockId block = p.blocks.front();
  const std::int64_t num_others = kv_course::pick(p.random, 2, 6);
  for (std::int64_t i = 0; i < num_others; ++i) p.pool.share(block);
  for (std::int64_t left = num_others; left > 0; --left) {
    p.pool.release(block);
    CHECK(p.pool.num_holders(block) == left);
    CHECK(p.pool.num_free() == 0);
  }
  p.pool.release(block);
  CHECK(p.pool.num_holders(block) == 0);
  CHECK(p.pool.num_free() == 1);
}

TEST_CASE("the answer is whether the block has become free") {
  FullPool p(2);
  const BlockId shared = p.blocks[0], own = p.blocks[1];
  p.pool.share(shared);
  CHECK_FALSE(p.pool.release(shared));
  CHECK(p.pool.release(shared));
  CHECK(p.pool.release(own));
}

TEST_CASE("of the free blocks the longest free is handed out first") {
  FullPool p(3);
  for (const BlockId block : p.blocks) p.pool.release(block);
  REQUIRE(p.pool.num_free() == p.pool.num_blocks());
  for (const BlockId block : p.blocks) CHECK(p.pool.allocate() == block);
}

TEST_CASE("giving back twice is refused and changes nothing") {
  FullPool p(4);
  const BlockId block = p.blocks.front();
  p.pool.release(block);
  CHECK_THROWS_AS(p.pool.release(block), std::invalid_argument);
  CHECK(p.pool.num_holders(block) == 0);
  CHECK(p.pool.num_free() == 1);
  // Else two sequences would write into one block.
  CHECK(p.pool.allocate() == block);
  CHECK_FALSE(p.pool.allocate().has_value());
}

TEST_CASE("a free block cannot be shared") {
  FullPool p(5);
  const BlockId block = p.blocks.front();
  p.pool.share(block);
  p.pool.release(block);
  p.pool.release(block);
  CHECK_THROWS_AS(p.pool.share(block), std::invalid_argument);
  CHECK(p.pool.num_holders(block) == 0);
  CHECK(p.pool.num_free() == 1);
}
