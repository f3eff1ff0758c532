// The pool of blocks and the table of a sequence: ids, holders, offsets.
#include <catch2/catch_test_macros.hpp>
#include <set>
#include <stdexcept>
#include <vector>

#include "kv/cache/block_pool.hpp"
#include "kv/cache/block_table.hpp"

TEST_CASE("block pool: blocks are handed out in order, and again in the order they became free",
          "[paged]") {
  kv::BlockPool pool(3);
  CHECK(pool.num_blocks() == 3);
  CHECK(pool.num_free() == 3);
  CHECK(pool.allocate() == 0);
  CHECK(pool.allocate() == 1);
  CHECK(pool.allocate() == 2);
  CHECK(pool.num_free() == 0);
  CHECK(pool.allocate() == std::nullopt);
  CHECK(pool.release(1));
  CHECK(pool.release(0));
  CHECK(pool.free_blocks() == std::deque<kv::BlockId>{1, 0});
  CHECK(pool.allocate() == 1);
  CHECK(pool.allocate() == 0);
  CHECK(pool.allocate() == std::nullopt);
}

TEST_CASE("block pool: a block is free when its last holder has left, not before", "[paged]") {
  kv::BlockPool pool(2);
  const kv::BlockId block = pool.allocate().value();
  CHECK(pool.num_holders(block) == 1);
  pool.share(block);
  pool.share(block);
  CHECK(pool.num_holders(block) == 3);
  CHECK_FALSE(pool.release(block));
  CHECK_FALSE(pool.release(block));
  CHECK(pool.num_free() == 1);
  CHECK(pool.release(block));
  CHECK(pool.num_holders(block) == 0);
  CHECK(pool.num_free() == 2);
}

// Case E8: free(b) twice, then allocate twice.
TEST_CASE("block pool: a block that is given back twice is refused and handed out once",
          "[paged][cases]") {
  kv::BlockPool pool(2);
  const kv::BlockId block = pool.allocate().value();
  CHECK(pool.release(block));
  CHECK_THROWS_AS(pool.release(block), std::invalid_argument);
  CHECK(pool.num_free() == 2);
  const auto first = pool.allocate(), second = pool.allocate();
  REQUIRE(first.has_value());
  REQUIRE(second.has_value());
  CHECK(*first != *second);
  CHECK(pool.allocate() == std::nullopt);
}

// Case E8: a table that lists a block twice holds it twice.
TEST_CASE("block pool: each holder counts once, also when it is the same one", "[paged][cases]") {
  kv::BlockPool pool(4);
  kv::BlockId block = 0;
  while (block != 3) block = pool.allocate().value();
  pool.share(3);  // the table [3, 3]
  CHECK_FALSE(pool.release(3));
  CHECK(pool.num_free() == 0);
  CHECK(pool.release(3));
  CHECK(pool.free_blocks() == std::deque<kv::BlockId>{3});
  CHECK_THROWS_AS(pool.release(3), std::invalid_argument);
}

TEST_CASE("block pool: misuse is refused and changes nothing", "[paged]") {
  CHECK_THROWS_AS(kv::BlockPool(-1), std::invalid_argument);
  kv::BlockPool none(0);
  CHECK(none.allocate() == std::nullopt);
  kv::BlockPool pool(2);
  CHECK_THROWS_AS(pool.share(0), std::invalid_argument);
  CHECK_THROWS_AS(pool.release(0), std::invalid_argument);
  CHECK_THROWS_AS(pool.share(2), std::invalid_argument);
  CHECK_THROWS_AS(pool.release(-1), std::invalid_argument);
  CHECK_THROWS_AS(pool.num_holders(2), std::invalid_argument);
  CHECK_THROWS_AS(pool.num_holders(-1), std::invalid_argument);
  CHECK(pool.num_free() == 2);
  CHECK(pool.num_holders(0) == 0);
}

// Case D1: at exact multiples the slot must not point one block early.
TEST_CASE("block table: the slot of a token is its block's, also at exact multiples",
          "[paged][cases]") {
  const kv::BlockTable table{4, {10, 11}, 8};
  const std::vector<kv::Slot> expected = {40, 41, 42, 43, 44, 45, 46, 47};
  for (std::int64_t t = 0; t < 8; ++t)
    CHECK(table.slot(t) == expected[static_cast<std::size_t>(t)]);
  CHECK(table.num_slots() == 8);
  CHECK(kv::tokens_in_last_block(8, 4) == 4);
  CHECK(kv::tokens_in_last_block(0, 4) == 0);
  CHECK(kv::num_blocks_for(0, 4) == 0);
}

// Case D4, and I6's 17 tokens.
TEST_CASE("block table: pages and tokens of the last page follow from the length",
          "[paged][cases]") {
  struct Row {
    std::int64_t tokens;
    std::int32_t block_size;
    std::int64_t pages, last;
  };
  for (const Row& row : {Row{100, 16, 7, 4},
                         {256, 16, 16, 16},
                         {16, 16, 1, 16},
                         {17, 16, 2, 1},
                         {13, 4, 4, 1},
                         {15, 16, 1, 15},
                         {1, 16, 1, 1},
                         {1, 1, 1, 1},
                         {5, 1, 5, 1},
                         {255, 256, 1, 255},
                         {257, 256, 2, 1},
                         {9, 3, 3, 3},
                         {10, 3, 4, 1}}) {
    INFO(row.tokens << " tokens, block size " << row.block_size);
    CHECK(kv::num_blocks_for(row.tokens, row.block_size) == row.pages);
    CHECK(kv::tokens_in_last_block(row.tokens, row.block_size) == row.last);
    CHECK((row.pages - 1) * row.block_size + row.last == row.tokens);
  }
}

// Case D7: block id times block stride must not wrap at 32 bits.
TEST_CASE("block table: slots beyond 2^31 do not wrap", "[paged][cases]") {
  kv::BlockTable table{276480, {7767, 7768}, 0};
  CHECK(table.slot(0) == 2147420160);
  CHECK(table.slot(276480) == 2147696640);
  table = {16 * 2 * 8 * 128, {65536}, 0};
  CHECK(table.slot(0) == 2147483648);
  table = {256, {2147483647}, 0};
  CHECK(table.slot(255) == std::int64_t{2147483647} * 256 + 255);
  CHECK(kv::num_blocks_for(std::int64_t{1} << 40, 16) == std::int64_t{1} << 36);
}
