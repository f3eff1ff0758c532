// The allocator, scene by scene: exact block ids, exact events, exhaustion.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <map>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "kv/cache/block_allocator.hpp"

namespace {

using Ids = std::vector<kv::BlockId>;
using Tokens = std::vector<std::int32_t>;
using Kind = kv::BlockEvent::Kind;

// What a sequence does in a pass: reserve, (write,) commit.
bool grow(kv::BlockAllocator& allocator, kv::BlockTable& table, std::int64_t num_tokens,
          std::vector<kv::BlockCopy>* copies = nullptr) {
  std::vector<kv::BlockCopy> ignored;
  if (!allocator.reserve(table, num_tokens, copies != nullptr ? *copies : ignored)) return false;
  table.length += num_tokens;
  return true;
}

Tokens count_up(std::int32_t first, std::size_t count) {
  Tokens tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

std::int64_t idle_sum(const kv::BlockAllocator& allocator) {
  return allocator.pool().num_free() + allocator.index().num_idle();
}

// "allocate 2 (1)" for each event: the block and its holders afterwards.
class Recorder final : public kv::BlockListener {
 public:
  void on_event(const kv::BlockEvent& event) override {
    static const std::map<Kind, std::string> kNames = {
        {Kind::allocate, "allocate"}, {Kind::share, "share"},        {Kind::release, "release"},
        {Kind::free, "free"},         {Kind::copy, "copy"},          {Kind::learn, "learn"},
        {Kind::evict, "evict"},       {Kind::exhausted, "exhausted"}};
    std::string line = std::to_string(event.sequence) + ": " + kNames.at(event.kind);
    if (event.from >= 0) line += " " + std::to_string(event.from) + " ->";
    if (event.block >= 0)
      line += " " + std::to_string(event.block) + " (" + std::to_string(event.num_holders) + ")";
    lines.push_back(line);
  }
  std::vector<std::string> take() { return std::exchange(lines, {}); }
  std::vector<std::string> lines;
};

}  // namespace

// Case D2, first half.
TEST_CASE("allocator: a block is needed at the first token behind a full one, not before",
          "[paged][cases]") {
  kv::BlockAllocator allocator(1, 4);
  kv::BlockTable table{4};
  REQUIRE(grow(allocator, table, 3));
  CHECK(allocator.pool().num_free() == 0);
  CHECK(allocator.num_reservable(table) == 1);
  CHECK(grow(allocator, table, 1));  // 3 -> 4 needs no block
  CHECK(allocator.num_reservable(table) == 0);
  CHECK_FALSE(grow(allocator, table, 1));  // 4 -> 5 does
  CHECK(table.blocks == Ids{0});
  CHECK(table.length == 4);
}

// Case D2, second half, with its neighbours.
TEST_CASE("allocator: a prompt of exactly one block holds one until the next token comes",
          "[paged][cases]") {
  const std::int64_t prompt = GENERATE(15, 16, 17);
  kv::BlockAllocator allocator(4, 16);
  kv::BlockTable table{16};
  REQUIRE(grow(allocator, table, prompt));
  CHECK(table.blocks.size() == (prompt <= 16 ? 1u : 2u));
  REQUIRE(grow(allocator, table, 1));
  CHECK(table.blocks.size() == (prompt < 16 ? 1u : 2u));
}

// Case I6: 17 tokens cost two blocks.
TEST_CASE("allocator: 17 tokens in blocks of 16 take two of them", "[paged][cases]") {
  kv::BlockAllocator allocator(4, 16);
  kv::BlockTable table{16};
  REQUIRE(grow(allocator, table, 17));
  CHECK(table.blocks == Ids{0, 1});
  CHECK(table.num_slots() == 32);
}

TEST_CASE("allocator: repeating a reservation changes nothing", "[paged]") {
  kv::BlockAllocator allocator(4, 4);
  kv::BlockTable table{4};
  std::vector<kv::BlockCopy> copies;
  for (int i = 0; i < 3; ++i) REQUIRE(allocator.reserve(table, 5, copies));
  CHECK(table.blocks == Ids{0, 1});
  REQUIRE(allocator.reserve(table, 2, copies));  // less than is there
  REQUIRE(allocator.reserve(table, 0, copies));
  CHECK(table.blocks == Ids{0, 1});
  CHECK(table.length == 0);
  CHECK(copies.empty());
  // Truncating to what is committed gives reserved blocks back.
  allocator.truncate(table, 0);
  CHECK(table.blocks.empty());
  CHECK(allocator.pool().num_free() == 4);
}

// Case E7, prompt 6.
TEST_CASE("allocator: of two forks the first that writes copies, the second writes in place",
          "[paged][cases]") {
  kv::BlockAllocator allocator(4, 4);
  kv::BlockTable a{4};
  REQUIRE(grow(allocator, a, 6));
  kv::BlockTable b = allocator.fork(a);
  CHECK(b.blocks == Ids{0, 1});
  CHECK(b.length == 6);
  std::vector<kv::BlockCopy> copies;
  REQUIRE(grow(allocator, a, 1, &copies));
  REQUIRE(copies.size() == 1);
  CHECK(copies[0].from == 1);
  CHECK(copies[0].to == 2);
  CHECK(copies[0].num_tokens == 2);
  REQUIRE(grow(allocator, b, 1, &copies));
  CHECK(copies.size() == 1);
  CHECK(a.blocks == Ids{0, 2});
  CHECK(b.blocks == Ids{0, 1});
  CHECK(allocator.pool().num_holders(0) == 2);
  CHECK(allocator.pool().num_holders(1) == 1);
  CHECK(allocator.pool().num_holders(2) == 1);
  CHECK(allocator.pool().num_free() == 1);
  allocator.truncate(a, 0);
  allocator.truncate(b, 0);
  for (kv::BlockId block = 0; block < 4; ++block) CHECK(allocator.pool().num_holders(block) == 0);
}

// Case E7, prompt 8: nothing is filled in part, so nothing is copied.
TEST_CASE("allocator: forks of whole blocks never copy", "[paged][cases]") {
  kv::BlockAllocator allocator(4, 4);
  kv::BlockTable a{4};
  REQUIRE(grow(allocator, a, 8));
  kv::BlockTable b = allocator.fork(a);
  std::vector<kv::BlockCopy> copies;
  REQUIRE(grow(allocator, a, 1, &copies));
  REQUIRE(grow(allocator, b, 1, &copies));
  CHECK(copies.empty());
  CHECK(a.blocks == Ids{0, 1, 2});
  CHECK(b.blocks == Ids{0, 1, 3});
  CHECK(allocator.pool().num_free() == 0);
  allocator.truncate(a, 0);
  allocator.truncate(b, 0);
  CHECK(allocator.pool().num_free() == 4);
}

TEST_CASE("allocator: of three forks two copy, and reserved blocks are not shared", "[paged]") {
  kv::BlockAllocator allocator(8, 4);
  kv::BlockTable a{4};
  std::vector<kv::BlockCopy> copies;
  REQUIRE(allocator.reserve(a, 12, copies));
  a.length = 2;
  kv::BlockTable b = allocator.fork(a), c = allocator.fork(b);
  CHECK(b.blocks == Ids{0});
  CHECK(allocator.pool().num_holders(0) == 3);
  CHECK(allocator.pool().num_holders(1) == 1);
  REQUIRE(grow(allocator, c, 1, &copies));
  REQUIRE(grow(allocator, a, 1, &copies));  // its reserved slots 2 to 4 lie in a shared block
  REQUIRE(grow(allocator, b, 1, &copies));
  CHECK(copies.size() == 2);
  CHECK(c.blocks == Ids{3});
  CHECK(a.blocks == Ids{4, 1, 2});
  CHECK(b.blocks == Ids{0});
}

TEST_CASE("allocator: truncating gives back blocks from the end and keeps what holds tokens",
          "[paged]") {
  kv::BlockAllocator allocator(4, 4);
  kv::BlockTable table{4};
  REQUIRE(grow(allocator, table, 13));
  Ids freed;
  allocator.truncate(table, 9, &freed);
  CHECK(table.blocks == Ids{0, 1, 2});
  CHECK(freed == Ids{3});
  allocator.truncate(table, 8, &freed);
  CHECK(table.blocks == Ids{0, 1});
  allocator.truncate(table, 0, &freed);
  CHECK(table.blocks.empty());
  CHECK(freed == Ids{3, 2, 1, 0});
  CHECK(allocator.pool().free_blocks() == std::deque<kv::BlockId>{3, 2, 1, 0});
}

TEST_CASE("allocator: what is shared is not freed by one of its holders", "[paged]") {
  kv::BlockAllocator allocator(4, 4);
  kv::BlockTable a{4};
  REQUIRE(grow(allocator, a, 6));
  kv::BlockTable b = allocator.fork(a);
  Ids freed;
  allocator.truncate(a, 0, &freed);
  CHECK(freed.empty());
  CHECK(allocator.pool().num_free() == 2);
  allocator.truncate(b, 0, &freed);
  CHECK(freed == Ids{1, 0});
}

// Case E1.
TEST_CASE("allocator: a known prompt reuses whole blocks but never its last token",
          "[paged][prefix][cases]") {
  const auto [prompt, reused] = GENERATE(
      std::pair<std::size_t, std::int64_t>{8, 4}, std::pair<std::size_t, std::int64_t>{4, 0},
      std::pair<std::size_t, std::int64_t>{9, 8}, std::pair<std::size_t, std::int64_t>{5, 4},
      std::pair<std::size_t, std::int64_t>{1, 0}, std::pair<std::size_t, std::int64_t>{0, 0});
  kv::BlockAllocator allocator(8, 4);
  const Tokens tokens = count_up(1, prompt);
  kv::BlockTable first{4};
  REQUIRE(grow(allocator, first, static_cast<std::int64_t>(prompt)));
  allocator.publish(first, tokens);
  kv::BlockTable second{4};
  CHECK(allocator.adopt_prefix(second, tokens) == reused);
  CHECK(second.length == reused);
  CHECK(second.blocks == Ids(first.blocks.begin(), first.blocks.begin() + reused / 4));
  // Adopted blocks are full: going on writes to a new one.
  std::vector<kv::BlockCopy> copies;
  REQUIRE(grow(allocator, second, 1, &copies));
  CHECK(copies.empty());
  CHECK(allocator.pool().num_holders(second.blocks.back()) == 1);
}

// Case E3: a block that was taken again is no longer found under its old tokens.
TEST_CASE("allocator: a block that was evicted and reused is forgotten", "[paged][prefix][cases]") {
  kv::BlockAllocator allocator(2, 4);
  const Tokens x = {1, 2, 3, 4, 5}, y = {9, 9, 9, 9, 8, 8, 8, 8};
  for (const Tokens& tokens : {x, y, x, y, x}) {
    kv::BlockTable table{4};
    CHECK(allocator.adopt_prefix(table, tokens) == 0);
    REQUIRE(grow(allocator, table, static_cast<std::int64_t>(tokens.size())));
    allocator.publish(table, tokens);
    allocator.truncate(table, 0);
    CHECK(allocator.index().size() <= 2);
    CHECK(idle_sum(allocator) == 2);
  }
}

// Case E6, first half: a tail that is filled in part is not offered to a second prompt.
TEST_CASE("allocator: of two equal prompts only whole blocks are shared",
          "[paged][prefix][cases]") {
  kv::BlockAllocator allocator(8, 4);
  const Tokens prompt = count_up(1, 6);
  kv::BlockTable a{4}, b{4};
  REQUIRE(grow(allocator, a, 6));
  allocator.publish(a, prompt);
  CHECK(allocator.adopt_prefix(b, prompt) == 4);
  REQUIRE(grow(allocator, b, 2));
  CHECK(a.blocks == Ids{0, 1});
  CHECK(b.blocks == Ids{0, 2});
  std::vector<kv::BlockCopy> copies;
  REQUIRE(grow(allocator, a, 1, &copies));
  REQUIRE(grow(allocator, b, 1, &copies));
  CHECK(copies.empty());
}

TEST_CASE("allocator: a block of the prefix index is copied before a shortened sequence writes",
          "[paged][prefix]") {
  kv::BlockAllocator allocator(4, 4);
  const Tokens tokens = count_up(1, 8);
  kv::BlockTable table{4};
  REQUIRE(grow(allocator, table, 8));
  allocator.publish(table, tokens);
  allocator.truncate(table, 7);
  std::vector<kv::BlockCopy> copies;
  REQUIRE(grow(allocator, table, 1, &copies));
  REQUIRE(copies.size() == 1);
  CHECK(copies[0].from == 1);
  CHECK(copies[0].to == 2);
  CHECK(copies[0].num_tokens == 3);
  CHECK(table.blocks == Ids{0, 2});
  kv::BlockTable other{4};
  CHECK(allocator.adopt_prefix(other, count_up(1, 9)) == 8);
  CHECK(other.blocks == Ids{0, 1});
}

// Case E9.
TEST_CASE("allocator: pressure evicts idle blocks only, and never a running sequence's",
          "[paged][prefix][cases]") {
  kv::BlockAllocator allocator(3, 4);
  const Tokens tokens = count_up(1, 5);
  kv::BlockTable past{4};
  REQUIRE(grow(allocator, past, 5));
  allocator.publish(past, tokens);
  allocator.truncate(past, 0);
  kv::BlockTable s{4};
  REQUIRE(allocator.adopt_prefix(s, tokens) == 4);
  CHECK(s.blocks == Ids{0});
  REQUIRE(grow(allocator, s, 4));
  kv::BlockTable other{4};
  REQUIRE(grow(allocator, other, 4));
  CHECK(allocator.pool().num_holders(0) == 2);
  CHECK_FALSE(grow(allocator, other, 1));  // block 0 is not up for eviction
  CHECK(allocator.pool().num_holders(0) == 2);
  CHECK(s.blocks == Ids{0, 2});
  allocator.truncate(s, 0);
  REQUIRE(grow(allocator, other, 8));  // now the free block, then block 0
  CHECK(other.blocks.back() == 0);
  CHECK(allocator.index().size() == 0);
}

// Case E11.
TEST_CASE("allocator: at idle every block is free or cached, whatever requests went through",
          "[paged][prefix][cases]") {
  kv::BlockAllocator allocator(8, 4);
  for (int request = 0; request < 20; ++request) {
    const Tokens tokens = count_up(request % 3 * 100, 9);
    kv::BlockTable table{4};
    const std::int64_t reused = allocator.adopt_prefix(table, tokens);
    if (request == 7) {  // fails admission: asks for more than there is
      CHECK_FALSE(grow(allocator, table, 40));
      allocator.truncate(table, 0);
      CHECK(idle_sum(allocator) == 8);
      continue;
    }
    REQUIRE(grow(allocator, table, 9 - reused));
    if (request != 11) allocator.publish(table, tokens);  // 11 is aborted before that
    CHECK(table.blocks.size() == 3);
    allocator.truncate(table, 0);
    CHECK(idle_sum(allocator) == 8);
  }
  CHECK(allocator.index().size() == 6);
  CHECK(allocator.pool().num_free() == 2);
}

TEST_CASE("allocator: evicted blocks are reported, so that they can be erased", "[paged][prefix]") {
  kv::BlockAllocator allocator(3, 2);
  kv::BlockTable past{2};
  REQUIRE(grow(allocator, past, 4));
  allocator.publish(past, count_up(1, 4));
  allocator.truncate(past, 0);
  kv::BlockTable table{2};
  std::vector<kv::BlockCopy> copies;
  Ids evicted;
  REQUIRE(allocator.reserve(table, 2, copies, -1, &evicted));
  CHECK(evicted.empty());
  REQUIRE(allocator.reserve(table, 6, copies, -1, &evicted));
  CHECK(evicted == Ids{1, 0});
  CHECK(table.blocks == Ids{2, 1, 0});
}

TEST_CASE("allocator: events tell every change of holders in its order", "[paged]") {
  kv::BlockAllocator allocator(3, 2);
  Recorder recorder;
  allocator.set_listener(&recorder);
  std::vector<kv::BlockCopy> copies;
  using Lines = std::vector<std::string>;

  kv::BlockTable a{2};
  REQUIRE(allocator.reserve(a, 3, copies, 0));
  a.length = 3;
  CHECK(recorder.take() == Lines{"0: allocate 0 (1)", "0: allocate 1 (1)"});
  kv::BlockTable b = allocator.fork(a, 1);
  CHECK(recorder.take() == Lines{"1: share 0 (2)", "1: share 1 (2)"});
  REQUIRE(allocator.reserve(b, 1, copies, 1));
  b.length = 4;
  CHECK(recorder.take() == Lines{"1: allocate 2 (1)", "1: copy 1 -> 2 (1)", "1: release 1 (1)"});
  CHECK_FALSE(allocator.reserve(b, 1, copies, 1));
  CHECK(recorder.take() == Lines{"1: exhausted"});
  allocator.publish(b, Tokens{1, 2, 3, 4}, 0, 1);
  allocator.publish(b, Tokens{1, 2, 3, 4}, 0, 1);
  CHECK(recorder.take() == Lines{"1: learn 0 (3)", "1: learn 2 (2)"});
  allocator.truncate(b, 0, nullptr, 1);
  CHECK(recorder.take() == Lines{"1: release 2 (1)", "1: release 0 (2)"});
  allocator.truncate(a, 0, nullptr, 0);
  CHECK(recorder.take() == Lines{"0: release 1 (0)", "0: free 1 (0)", "0: release 0 (1)"});
  kv::BlockTable c{2};
  CHECK(allocator.adopt_prefix(c, Tokens{1, 2, 3}, 0, 2) == 2);
  CHECK(recorder.take() == Lines{"2: share 0 (2)"});
  REQUIRE(allocator.reserve(c, 4, copies, 2));
  CHECK(recorder.take() ==
        Lines{"2: allocate 1 (1)", "-1: evict 2 (0)", "-1: free 2 (0)", "2: allocate 2 (1)"});
  allocator.set_listener(nullptr);
  allocator.truncate(c, 0);
  CHECK(recorder.lines.empty());
}

TEST_CASE("allocator: misuse is refused and changes nothing", "[paged]") {
  CHECK_THROWS_AS(kv::BlockAllocator(-1, 4), std::invalid_argument);
  CHECK_THROWS_AS(kv::BlockAllocator(4, 0), std::invalid_argument);
  kv::BlockAllocator allocator(4, 4);
  std::vector<kv::BlockCopy> copies;
  kv::BlockTable other_size{8};
  CHECK_THROWS_AS(allocator.reserve(other_size, 1, copies), std::invalid_argument);
  CHECK_THROWS_AS(allocator.adopt_prefix(other_size, Tokens{1}), std::invalid_argument);
  kv::BlockTable table{4};
  CHECK_THROWS_AS(allocator.reserve(table, -1, copies), std::invalid_argument);
  CHECK_THROWS_AS(allocator.reserve(table, (std::int64_t{1} << 62) + 1, copies),
                  std::invalid_argument);
  REQUIRE(grow(allocator, table, 5));
  CHECK_THROWS_AS(allocator.truncate(table, 6), std::invalid_argument);
  CHECK_THROWS_AS(allocator.truncate(table, -1), std::invalid_argument);
  CHECK_THROWS_AS(allocator.adopt_prefix(table, Tokens{1, 2}), std::invalid_argument);
  CHECK_THROWS_AS(allocator.publish(table, Tokens{1, 2, 3, 4}), std::invalid_argument);
  CHECK(table.blocks == Ids{0, 1});
  CHECK(table.length == 5);
  CHECK(allocator.pool().num_free() == 2);
  CHECK(allocator.index().size() == 0);
  CHECK_FALSE(allocator.reserve(table, std::int64_t{1} << 61, copies));
}

// The n-th allocation fails, for all n: pools of every size from none to enough.
TEST_CASE("allocator: a reservation that fails changes nothing, whichever block is missing",
          "[paged]") {
  const int extra = GENERATE(range(0, 6));
  const std::int64_t wanted = GENERATE(1, 2, 3, 4, 6, 7, 11);
  // a holds 2 blocks, the second half full and shared with b; a third block is cached and idle.
  kv::BlockAllocator allocator(3 + extra, 4);
  kv::BlockTable past{4};
  kv::BlockTable a{4};
  REQUIRE(grow(allocator, a, 6));
  REQUIRE(grow(allocator, past, 4));
  allocator.publish(past, count_up(50, 4));
  allocator.truncate(past, 0);
  kv::BlockTable b = allocator.fork(a);
  const Ids before = a.blocks;
  const auto free_before = allocator.pool().free_blocks();

  // One block for the copy, and one for each four tokens behind the first two.
  const std::int64_t needed = 1 + (wanted > 2 ? (wanted - 2 + 3) / 4 : 0);
  const std::int64_t available = extra + 1;
  CHECK(allocator.num_reservable(a) == (available == 0 ? 0 : 2 + (available - 1) * 4));
  std::vector<kv::BlockCopy> copies;
  const bool done = allocator.reserve(a, wanted, copies);
  CHECK(done == (needed <= available));
  if (!done) {
    CHECK(a.blocks == before);
    CHECK(a.length == 6);
    CHECK(copies.empty());
    CHECK(allocator.pool().free_blocks() == free_before);
    CHECK(allocator.index().size() == 1);
    CHECK(allocator.pool().num_holders(1) == 2);
    // It is usable: with b gone there is nothing to copy.
    allocator.truncate(b, 0);
    REQUIRE(allocator.reserve(a, 2, copies));
    CHECK(copies.empty());
    CHECK(a.blocks == before);
  } else {
    CHECK(copies.size() == 1);
    CHECK(static_cast<std::int64_t>(a.blocks.size()) == 2 + needed - 1);
    CHECK(b.blocks == before);
  }
}

// The random run found this one: a copied block that nobody else but the index holds was evicted
// within the same call, before anybody could copy it.
TEST_CASE("allocator: a block that is to be copied is not evicted by the same reservation",
          "[paged][prefix]") {
  kv::BlockAllocator allocator(4, 4);
  kv::BlockTable table{4};
  REQUIRE(grow(allocator, table, 4));
  allocator.publish(table, count_up(1, 4));
  kv::BlockTable later{4};
  REQUIRE(grow(allocator, later, 4));
  allocator.publish(later, count_up(11, 4));
  allocator.truncate(later, 0);
  allocator.truncate(table, 3);  // block 0 is now held for 3 tokens, and older than idle block 1
  std::vector<kv::BlockCopy> copies;
  Ids evicted;
  REQUIRE(allocator.reserve(table, 6, copies, -1, &evicted));
  CHECK(table.blocks == Ids{2, 3, 1});
  CHECK(evicted == Ids{1});
  REQUIRE(copies.size() == 1);
  CHECK(copies[0].from == 0);
  CHECK(allocator.index().knows(0));
}
