// Exercise 05_evict: PrefixIndex::evict().
#include <algorithm>
#include <optional>

#include "course/prefix_support.hpp"

using kv_course::Blocks;
using kv_course::PrefixWorld;
using kv_course::Tokens;
using kv_course::operator+;

TEST_CASE("the least recently used block goes first") {
  PrefixWorld w(1);
  std::vector<Tokens> prompts;
  Blocks by_use;  // in the order of their last use
  for (int i = 0; i < 6; ++i) {
    prompts.push_back(w.block());
    by_use.push_back(w.learn_idle(prompts.back())[0]);
  }
  // The first is used again, then some others.
  std::size_t used = 0;
  for (int i = 0; i < 8; ++i) {
    const Blocks found = w.index.match(prompts[used]);
    w.let_go(found);
    std::erase(by_use, found[0]);
    by_use.push_back(found[0]);
    used = static_cast<std::size_t>(kv_course::pick(w.random, 0, 5));
  }
  for (const kv::BlockId block : by_use) CHECK(w.index.evict() == block);
}

TEST_CASE("children go before their parents") {
  PrefixWorld w(2);
  const Tokens a = w.block(), b = w.block(), c = w.block();
  const Blocks abc = w.learn_idle(a + b + c);
  for (auto block = abc.rbegin(); block != abc.rend(); ++block) CHECK(w.index.evict() == *block);

  // A sequence may hold only the child: its own copy of the parent was not learned.
  PrefixWorld other(3);
  const Tokens parent = other.block(), child = other.block();
  const Blocks known = other.learn_idle(parent);
  const Blocks own = other.learn(parent + child);
  REQUIRE(other.pool.num_holders(known[0]) == 1);
  CHECK_FALSE(other.index.evict().has_value());
  other.let_go(own);
  CHECK(other.index.evict() == own[1]);
  CHECK(other.index.evict() == known[0]);
}

TEST_CASE("a block that a sequence holds stays") {
  PrefixWorld w(4);
  const Blocks running = w.learn(w.block() + w.block());
  const Blocks idle = w.learn_idle(w.block());
  const Blocks later = w.learn(w.block());
  CHECK(w.index.evict() == idle[0]);
  CHECK_FALSE(w.index.evict().has_value());
  for (const kv::BlockId block : running + later) CHECK(w.pool.num_holders(block) == 2);
  w.let_go(later);
  CHECK(w.index.evict() == later[0]);
}

TEST_CASE("an evicted block is free and forgotten") {
  PrefixWorld w(5, kv_course::same_hash);
  const Tokens a = w.block(), b = w.block(), c = w.block();
  const Blocks second = w.learn(b), first = w.learn_idle(a), third = w.learn(c);
  const kv::BlockId num_free = w.pool.num_free();
  REQUIRE(w.index.evict() == first[0]);
  CHECK(w.pool.num_holders(first[0]) == 0);
  CHECK(w.pool.num_free() == num_free + 1);
  CHECK_FALSE(w.index.knows(first[0]));
  CHECK(w.index.size() == 2);
  CHECK(w.index.match(a).empty());
  // The others are still found, although their hashes are the same.
  CHECK(w.index.match(b) == second);
  CHECK(w.index.match(c) == third);
}
