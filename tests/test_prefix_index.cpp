// The prefix index: which blocks a prompt finds, and which go first.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cstdint>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "kv/cache/prefix_index.hpp"

namespace {

using Ids = std::vector<kv::BlockId>;
using Tokens = std::vector<std::int32_t>;

std::uint64_t always_7(std::uint64_t, std::span<const std::int32_t>) { return 7; }
std::uint64_t ignores_parent(std::uint64_t, std::span<const std::int32_t> tokens) {
  return static_cast<std::uint64_t>(tokens[0]) & 1u;
}

// A pool and its index with blocks of two tokens.
struct Fixture {
  explicit Fixture(int num_blocks, kv::PrefixIndex::Hash hash = kv::PrefixIndex::hash)
      : pool(num_blocks), index(pool, 2, hash) {}

  // Blocks for a sequence.
  Ids take(int count) {
    Ids blocks;
    for (int i = 0; i < count; ++i) blocks.push_back(pool.allocate().value());
    return blocks;
  }
  void give_back(const Ids& blocks) {
    for (const kv::BlockId block : blocks) pool.release(block);
  }
  // A sequence that runs, is published and ends.
  Ids run(const Tokens& tokens, std::uint64_t salt = 0) {
    const Ids blocks = take(static_cast<int>((tokens.size() + 1) / 2));
    index.insert(tokens, blocks, salt);
    give_back(blocks);
    return blocks;
  }
  // What a prompt finds, given back at once.
  Ids found(const Tokens& tokens, std::uint64_t salt = 0) {
    const Ids blocks = index.match(tokens, salt);
    give_back(blocks);
    return blocks;
  }

  kv::BlockPool pool;
  kv::PrefixIndex index;
};

}  // namespace

TEST_CASE("prefix index: a prompt finds the full blocks of its beginning, whatever the hash",
          "[paged][prefix]") {
  const auto hash = GENERATE(kv::PrefixIndex::hash, always_7, ignores_parent);
  Fixture f(8, hash);
  f.run({1, 2, 3, 4, 5});
  CHECK(f.index.size() == 2);  // the block of 5 is not full
  CHECK(f.found({1, 2, 3, 4, 5, 6}) == Ids{0, 1});
  CHECK(f.found({1, 2, 3, 4}) == Ids{0, 1});
  CHECK(f.found({1, 2, 3}) == Ids{0});
  CHECK(f.found({1, 2, 9, 9}) == Ids{0});
  CHECK(f.found({1}) == Ids{});
  CHECK(f.found({}) == Ids{});
  CHECK(f.found({2, 1, 3, 4}) == Ids{});
  CHECK(f.found({3, 4, 5, 6}) == Ids{});  // known tokens, but not at the beginning
  // The same second block behind another beginning is another block.
  const Ids other = f.run({7, 8, 3, 4});
  CHECK(f.found({7, 8, 3, 4}) == other);
  CHECK(f.found({1, 2, 3, 4}) == Ids{0, 1});
  CHECK(f.index.size() == 4);
}

TEST_CASE("prefix index: tokens that repeat make one block each place", "[paged][prefix]") {
  const auto hash = GENERATE(kv::PrefixIndex::hash, always_7, ignores_parent);
  Fixture f(8, hash);
  const Ids blocks = f.run({5, 5, 5, 5, 5, 5});
  CHECK(f.found({5, 5, 5, 5, 5, 5, 5}) == blocks);
  CHECK(f.found({5, 5, 5}) == Ids{blocks[0]});
}

// Case E5, also with forced collisions.
TEST_CASE("prefix index: another salt finds nothing", "[paged][prefix][cases]") {
  const auto hash = GENERATE(kv::PrefixIndex::hash, always_7);
  Fixture f(8, hash);
  const std::uint64_t adapter_x = kv::prefix_salt("x", ""), tenant_x = kv::prefix_salt("", "x");
  f.run({1, 2, 3, 4}, adapter_x);
  CHECK(f.found({1, 2, 3, 4}, adapter_x) == Ids{0, 1});
  CHECK(f.found({1, 2, 3, 4}, tenant_x).empty());
  CHECK(f.found({1, 2, 3, 4}).empty());
  const Ids own = f.run({1, 2, 3, 4}, tenant_x);
  CHECK(f.found({1, 2, 3, 4}, tenant_x) == own);
  CHECK(f.found({1, 2, 3, 4}, adapter_x) == Ids{0, 1});
}

TEST_CASE("prefix index: salts keep adapters and tenants apart", "[paged][prefix][cases]") {
  CHECK(kv::prefix_salt("", "") == 0);
  const std::vector<std::uint64_t> salts = {
      kv::prefix_salt("", ""),
      kv::prefix_salt("x", ""),
      kv::prefix_salt("", "x"),
      kv::prefix_salt("x", "x"),
      kv::prefix_salt("ab", "c"),
      kv::prefix_salt("a", "bc"),
      kv::prefix_salt("abc", ""),
      kv::prefix_salt("", "abc"),
      kv::prefix_salt("", std::string(1, 0)),
      kv::prefix_salt("\x01", ""),
  };
  CHECK(std::set<std::uint64_t>(salts.begin(), salts.end()).size() == salts.size());
}

// Case E5: ids that are written one after the other must not run together.
TEST_CASE("prefix index: the hash tells token ids, their order and their beginning apart",
          "[paged][prefix][cases]") {
  const auto hash = [](std::uint64_t parent, const Tokens& tokens) {
    return kv::PrefixIndex::hash(parent, tokens);
  };
  CHECK(hash(0, {1, 23}) != hash(0, {12, 3}));
  CHECK(hash(0, {1, 2}) != hash(0, {2, 1}));
  CHECK(hash(0, {1, 2}) != hash(1, {1, 2}));
  CHECK(hash(0, {0}) != hash(0, {0, 0}));
  CHECK(hash(0, {-1}) != hash(0, {0}));
  // No two of 100,000 different blocks share a key (a good hash fails this once in 3.7 billion).
  std::set<std::uint64_t> keys;
  for (std::int32_t a = 0; a < 100; ++a)
    for (std::int32_t b = 0; b < 100; ++b)
      for (std::uint64_t parent = 0; parent < 10; ++parent) keys.insert(hash(parent, {a, b}));
  CHECK(keys.size() == 100000);
}

// Case E12.
TEST_CASE("prefix index: a chain goes tail first, and no hit is counted past a hole",
          "[paged][prefix][cases]") {
  Fixture f(8);
  f.run({1, 2, 3, 4, 5, 6});
  CHECK(f.index.num_idle() == 3);
  CHECK(f.index.evict() == 2);
  CHECK(f.found({1, 2, 3, 4, 5, 6}) == Ids{0, 1});
  CHECK(f.index.evict() == 1);
  CHECK(f.index.evict() == 0);
  CHECK(f.found({1, 2, 3, 4, 5, 6}).empty());
  CHECK(f.index.evict() == std::nullopt);
  CHECK(f.index.size() == 0);
  CHECK(f.pool.num_free() == 8);
}

TEST_CASE("prefix index: what was used least recently goes first, children before parents",
          "[paged][prefix]") {
  Fixture f(8);
  f.run({1, 1, 2, 2});    // blocks 0, 1
  f.run({3, 3, 4, 4});    // blocks 2, 3
  f.run({5, 5});          // block 4
  f.found({1, 1, 2, 2});  // now the most recent
  CHECK(f.index.evict() == 3);
  CHECK(f.index.evict() == 2);
  CHECK(f.index.evict() == 4);
  CHECK(f.index.evict() == 1);
  CHECK(f.index.evict() == 0);
}

TEST_CASE("prefix index: tokens that are learned once more count as used", "[paged][prefix]") {
  Fixture f(4);
  f.run({1, 1});  // block 0
  f.run({2, 2});  // block 1
  f.run({1, 1});  // had a block of its own, 0 stays the known one
  CHECK(f.index.size() == 2);
  CHECK(f.index.evict() == 1);
  CHECK(f.index.evict() == 0);
}

TEST_CASE("prefix index: a parent that was used for another prompt outlives the older branch",
          "[paged][prefix]") {
  Fixture f(8);
  f.run({1, 1, 2, 2});  // blocks 0, 1
  const Ids branch = f.index.match(Tokens{1, 1});
  REQUIRE(branch == Ids{0});
  const Ids own = f.take(1);  // block 2 holds 3, 3 behind 1, 1
  f.index.insert(Tokens{1, 1, 3, 3}, Ids{0, own[0]});
  f.give_back(branch);
  f.give_back(own);
  CHECK(f.index.parent(own[0]) == 0);
  CHECK(f.index.parent(1) == 0);
  CHECK(f.index.parent(0) == -1);
  CHECK(f.index.evict() == 1);
  CHECK(f.index.evict() == own[0]);
  CHECK(f.index.evict() == 0);
}

// Case E9: eviction may not touch a block that a running sequence holds.
TEST_CASE("prefix index: a block in use is not evicted, nor what lies before it",
          "[paged][prefix][cases]") {
  Fixture f(4);
  f.run({1, 2, 3, 4});
  const Ids running = f.index.match(Tokens{1, 2});
  REQUIRE(running == Ids{0});
  CHECK(f.pool.num_holders(0) == 2);
  CHECK(f.index.num_idle() == 1);
  CHECK(f.index.evict() == 1);
  CHECK(f.index.evict() == std::nullopt);
  CHECK(f.pool.num_holders(0) == 2);
  f.give_back(running);
  CHECK(f.index.num_idle() == 1);
  CHECK(f.index.evict() == 0);
}

TEST_CASE("prefix index: tokens that are known already leave the known block in place",
          "[paged][prefix]") {
  Fixture f(8);
  const Ids first = f.take(1), second = f.take(2);
  f.index.insert(Tokens{1, 2}, first);
  f.index.insert(Tokens{1, 2, 3, 4}, second);  // its first block is a duplicate
  CHECK(f.index.size() == 2);
  CHECK(f.index.knows(first[0]));
  CHECK_FALSE(f.index.knows(second[0]));
  CHECK(f.index.knows(second[1]));
  CHECK(f.index.parent(second[1]) == first[0]);
  CHECK(f.pool.num_holders(second[0]) == 1);
  // The first sequence ends: its block is held by the index alone, but its child is in use.
  f.give_back(first);
  CHECK(f.index.num_idle() == 0);
  CHECK(f.index.evict() == std::nullopt);
  f.give_back(second);
  CHECK(f.index.num_idle() == 2);
  CHECK(f.pool.num_free() == 6);  // the duplicate went back at once
  CHECK(f.index.evict() == second[1]);
  CHECK(f.index.evict() == first[0]);
  CHECK(f.pool.num_free() == 8);
}

TEST_CASE("prefix index: learning twice holds once", "[paged][prefix]") {
  Fixture f(4);
  const Ids blocks = f.take(2);
  f.index.insert(Tokens{1, 2, 3, 4}, blocks);
  f.index.insert(Tokens{1, 2, 3, 4}, blocks);
  CHECK(f.index.size() == 2);
  CHECK(f.pool.num_holders(0) == 2);
  CHECK(f.pool.num_holders(1) == 2);
}

TEST_CASE("prefix index: only full blocks are learned, as far as tokens and blocks both reach",
          "[paged][prefix]") {
  Fixture f(4);
  const Ids blocks = f.take(3);
  f.index.insert(Tokens{1, 2, 3}, blocks);
  CHECK(f.index.size() == 1);
  f.index.insert(Tokens{1, 2, 3, 4, 5, 6}, std::span(blocks).first(2));
  CHECK(f.index.size() == 2);
  CHECK_FALSE(f.index.knows(blocks[2]));
}

TEST_CASE("prefix index: misuse is refused", "[paged][prefix]") {
  kv::BlockPool pool(2);
  CHECK_THROWS_AS(kv::PrefixIndex(pool, 0), std::invalid_argument);
  CHECK_THROWS_AS(kv::PrefixIndex(pool, 2, nullptr), std::invalid_argument);
  kv::PrefixIndex index(pool, 2);
  CHECK_THROWS_AS(index.insert(Tokens{1, 2}, Ids{0}), std::invalid_argument);  // nobody holds it
  CHECK(index.size() == 0);
  const Ids block = {pool.allocate().value()};
  index.insert(Tokens{1, 2}, block);
  CHECK_THROWS_AS(index.insert(Tokens{3, 4}, block), std::invalid_argument);
  CHECK_THROWS_AS(index.knows(2), std::invalid_argument);
  CHECK_THROWS_AS(index.parent(1), std::invalid_argument);
  CHECK(index.size() == 1);
}
