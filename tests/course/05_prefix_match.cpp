// Exercise 05_prefix_match: PrefixIndex::match() and PrefixIndex::find().
#include "course/prefix_support.hpp"

using kv_course::Blocks;
using kv_course::PrefixWorld;
using kv_course::Tokens;
using kv_course::operator+;

TEST_CASE("the longest chain of known blocks is found") {
  PrefixWorld w(1);
  const std::uint64_t salt = w.random();
  const Tokens a = w.block(), b = w.block(), c = w.block(), d = w.block();
  const Blocks abc = w.learn(a + b + c, salt);
  const Blocks abd = w.learn(a + b + d, salt);
  CHECK(w.index.match(a + b + c, salt) == abc);
  CHECK(w.index.match(a + b + d, salt) == Blocks{abc[0], abc[1], abd[2]});
  CHECK(w.index.match(a + b + w.block() + c, salt) == Blocks{abc[0], abc[1]});
  CHECK(w.index.match(b + c, salt).empty());  // known behind a only
  CHECK(w.index.match(a + b + c, salt + 1).empty());
}

TEST_CASE("only whole blocks of the prompt are found") {
  PrefixWorld w(2);
  const Tokens tokens = w.block() + w.block() + w.block();
  const Blocks blocks = w.learn(tokens);
  const std::span<const std::int32_t> all(tokens);
  const auto size = static_cast<std::size_t>(w.block_size);
  CHECK(w.index.match(all.first(3 * size - 1)) == Blocks{blocks[0], blocks[1]});
  CHECK(w.index.match(all.first(2 * size)) == Blocks{blocks[0], blocks[1]});
  CHECK(w.index.match(all.first(size + 1)) == Blocks{blocks[0]});
  CHECK(w.index.match(all.first(size - 1)).empty());
  CHECK(w.index.match(all.first(0)).empty());
}

TEST_CASE("each block that is found has one holder more") {
  PrefixWorld w(3);
  const Tokens a = w.block(), b = w.block(), c = w.block();
  const Blocks blocks = w.learn(a + b + c);  // each held by the sequence and by the index
  const std::int64_t times = kv_course::pick(w.random, 2, 5);
  for (std::int64_t i = 0; i < times; ++i) w.index.match(a + b);
  CHECK(w.pool.num_holders(blocks[0]) == 2 + times);
  CHECK(w.pool.num_holders(blocks[1]) == 2 + times);
  CHECK(w.pool.num_holders(blocks[2]) == 2);
}

TEST_CASE("equal hashes are not trusted") {
  PrefixWorld w(4, kv_course::same_hash);
  const Tokens a = w.block(), b = w.block(), c = w.block(), d = w.block();
  const Blocks ab = w.learn(a + b);
  CHECK(w.index.match(c).empty());          // other tokens
  CHECK(w.index.match(b).empty());          // the same tokens, known behind a only
  CHECK(w.index.match(a + b, 1).empty());   // another salt
  CHECK(w.index.match(c + a + b).empty());  // behind a block that is not known
  const Blocks cd = w.learn(c + d);
  REQUIRE(w.index.size() == 4);
  CHECK(w.index.match(a + b) == ab);
  CHECK(w.index.match(c + d) == cd);
  CHECK(w.index.match(a + d) == Blocks{ab[0]});
}

TEST_CASE("what was found is evicted last") {
  PrefixWorld w(5);
  const Tokens a = w.block() + w.block(), b = w.block(), c = w.block();
  const Blocks first = w.learn_idle(a), second = w.learn_idle(b), third = w.learn_idle(c);
  w.let_go(w.index.match(a));
  CHECK(w.index.evict() == second[0]);
  CHECK(w.index.evict() == third[0]);
  CHECK(w.index.evict() == first[1]);
}
