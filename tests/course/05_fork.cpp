// Exercise 05_fork: BlockAllocator::fork().
#include <vector>

#include "course/support.hpp"
#include "kv/cache/block_allocator.hpp"

namespace {

constexpr kv::BlockId kNumBlocks = 40;

// A sequence whose length and block size come from the seed; `spare` tokens are reserved only.
struct Parent {
  Parent(std::uint64_t salt, std::int64_t spare) : random(kv_course::random_numbers(salt)) {
    std::vector<kv::BlockCopy> copies;
    REQUIRE(allocator.reserve(table, length + spare, copies));
    table.length = length;
  }

  std::mt19937_64 random;
  std::int32_t block_size = static_cast<std::int32_t>(kv_course::pick(random, 2, 8));
  std::int64_t length = kv_course::pick(random, 5, 40);
  kv::BlockAllocator allocator{kNumBlocks, block_size};
  kv::BlockTable table{block_size, {}, 0};
};

}  // namespace

TEST_CASE("the child lists the parent's blocks") {
  Parent parent(1, 0);
  const kv::BlockTable child = parent.allocator.fork(parent.table);
  CHECK(child.block_size == parent.table.block_size);
  CHECK(child.length == parent.table.length);
  CHECK(child.blocks == parent.table.blocks);
}

TEST_CASE("every shared block has one holder more") {
  Parent parent(2, 0);
  UNSCOPED_INFO("a sequence, its fork, and the fork's fork: three hold each block");
  const kv::BlockTable child = parent.allocator.fork(parent.table);
  const kv::BlockTable grandchild = parent.allocator.fork(child);
  for (const kv::BlockId block : parent.table.blocks)
    CHECK(parent.allocator.pool().num_holders(block) == 3);
}

TEST_CASE("blocks without tokens are not shared") {
  Parent parent(3, 20);
  const kv::BlockTable child = parent.allocator.fork(parent.table);
  REQUIRE(child.length == parent.length);
  const std::int64_t filled = kv::num_blocks_for(child.length, child.block_size);
  CHECK(static_cast<std::int64_t>(child.blocks.size()) == filled);
  for (std::size_t i = static_cast<std::size_t>(filled); i < parent.table.blocks.size(); ++i)
    CHECK(parent.allocator.pool().num_holders(parent.table.blocks[i]) == 1);
}

TEST_CASE("a listener hears of every shared block") {
  Parent parent(5, 0);
  struct Shared final : kv::BlockListener {
    void on_event(const kv::BlockEvent& event) override {
      if (event.kind == kv::BlockEvent::Kind::share && event.sequence == 7)
        blocks.push_back(event.block);
    }
    std::vector<kv::BlockId> blocks;
  } shared;
  parent.allocator.set_listener(&shared);
  const kv::BlockTable child = parent.allocator.fork(parent.table, 7);
  parent.allocator.set_listener(nullptr);
  CHECK(shared.blocks == parent.table.blocks);
}

TEST_CASE("no block is taken from the pool") {
  Parent parent(4, 0);
  const std::int64_t num_free = parent.allocator.pool().num_free();
  const kv::BlockTable child = parent.allocator.fork(parent.table);
  CHECK(parent.allocator.pool().num_free() == num_free);
  CHECK_FALSE(child.blocks.empty());
}
