// The allocator against a plain model: long random runs, and every state of a small pool.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <deque>
#include <functional>
#include <random>
#include <string>
#include <unordered_set>
#include <vector>

#include "support/block_world.hpp"

namespace {

using kv_test::BlockWorld;
using Tokens = BlockWorld::Tokens;

std::uint64_t always_7(std::uint64_t, std::span<const std::int32_t>) { return 7; }
// Only 8 different keys: collisions of blocks at every depth.
std::uint64_t three_bits(std::uint64_t parent, std::span<const std::int32_t> tokens) {
  return kv::PrefixIndex::hash(parent, tokens) & 7u;
}

class RandomRun {
 public:
  RandomRun(BlockWorld& world, std::uint32_t seed) : world_(world), random_(seed) {}

  void step() {
    const int id = static_cast<int>(below(6));
    if (!world_.sequences.contains(id)) {
      if (!world_.sequences.empty() && below(2) == 0)
        world_.fork(any(), id);
      else
        world_.start(id, tokens(below(14)), below(8) == 0 ? 1 : 0);
      return;
    }
    const std::int64_t length = world_.sequences.at(id).table.length;
    switch (below(8)) {
      case 0:
        return world_.end(id);
      case 1:
        return world_.truncate(id,
                               static_cast<std::int64_t>(below(static_cast<unsigned>(length) + 1)));
      case 2:
        return world_.publish(id);
      case 3:
        world_.reserve(id, static_cast<std::int64_t>(below(10)));
        return;
      case 4:
        world_.append(id, tokens(below(10)));
        return;
      default:
        world_.append(id, tokens(1));
    }
  }

 private:
  std::uint32_t below(unsigned limit) { return static_cast<std::uint32_t>(random_() % limit); }
  int any() {
    auto it = world_.sequences.begin();
    std::advance(it, below(static_cast<unsigned>(world_.sequences.size())));
    return it->first;
  }
  // Two different tokens, the first likelier: prefixes meet often and part now and then.
  Tokens tokens(std::uint32_t count) {
    Tokens tokens;
    for (std::uint32_t i = 0; i < count; ++i) tokens.push_back(below(6) == 0 ? 2 : 1);
    return tokens;
  }

  BlockWorld& world_;
  std::mt19937 random_;
};

}  // namespace

TEST_CASE("allocator: 100,000 random operations keep every invariant", "[paged][random]") {
  struct Setting {
    kv::BlockId num_blocks;
    std::int32_t block_size;
    kv::PrefixIndex::Hash hash;
  };
  const Setting setting =
      GENERATE(Setting{12, 4, kv::PrefixIndex::hash}, Setting{9, 3, kv::PrefixIndex::hash},
               Setting{16, 1, kv::PrefixIndex::hash}, Setting{5, 16, kv::PrefixIndex::hash},
               Setting{12, 2, always_7}, Setting{20, 2, three_bits});
  BlockWorld world(setting.num_blocks, setting.block_size, setting.hash);
  RandomRun run(world, 1);
  int done = 0;
  try {
    for (; done < 100000; ++done) {
      run.step();
      world.check();
    }
  } catch (const std::logic_error& error) {
    FAIL("operation " << done << ", block size " << setting.block_size << ": " << error.what());
  }
  // The run has met what it is for.
  CHECK(world.num_exhausted > 1000);
  CHECK(world.num_evicted > 500);
  CHECK(world.num_shared > 1000);
  if (setting.block_size > 1) CHECK(world.num_copied > 1000);
  while (!world.sequences.empty()) world.end(world.sequences.begin()->first);
  world.check();
  CHECK(world.allocator.pool().num_free() + world.allocator.index().num_idle() ==
        setting.num_blocks);
}

// All that two sequences can do with three blocks, from the empty pool on. A world is rebuilt by
// repeating the operations that led to it.
TEST_CASE("allocator: every reachable state of three blocks and two sequences is sound",
          "[paged][random]") {
  using Operation = std::function<void(BlockWorld&)>;
  struct Setting {
    std::int32_t block_size;
    std::vector<Tokens> prompts;
    std::vector<std::int32_t> next;
    std::size_t num_states;
  };
  const Setting setting =
      GENERATE(Setting{2, {{1}, {1, 1, 1}}, {1}, 5868}, Setting{1, {{1}, {2, 1}}, {1}, 6912});
  std::vector<Operation> operations;
  for (int id = 0; id < 2; ++id) {
    const auto alive = [id](BlockWorld& w) { return w.sequences.contains(id); };
    for (const Tokens& prompt : setting.prompts)
      operations.emplace_back([=](BlockWorld& w) {
        if (!alive(w)) w.start(id, prompt, 0);
      });
    for (const std::int32_t token : setting.next)
      operations.emplace_back([=](BlockWorld& w) {
        if (alive(w)) w.append(id, {token});
      });
    operations.emplace_back([=](BlockWorld& w) {
      if (alive(w)) w.reserve(id, 2);
    });
    operations.emplace_back([=](BlockWorld& w) {
      if (alive(w) && w.sequences.at(id).table.length > 0)
        w.truncate(id, w.sequences.at(id).table.length - 1);
    });
    operations.emplace_back([=](BlockWorld& w) {
      if (alive(w)) w.end(id);
    });
    operations.emplace_back([=](BlockWorld& w) {
      if (alive(w)) w.publish(id);
    });
    operations.emplace_back([=](BlockWorld& w) {
      if (alive(w) && !w.sequences.contains(1 - id)) w.fork(id, 1 - id);
    });
  }

  std::unordered_set<std::string> seen;
  std::deque<std::vector<std::uint8_t>> paths = {{}};
  seen.insert(BlockWorld(3, setting.block_size).state());
  std::size_t num_transitions = 0;
  while (!paths.empty()) {
    const std::vector<std::uint8_t> path = paths.front();
    paths.pop_front();
    for (std::size_t next = 0; next < operations.size(); ++next) {
      BlockWorld world(3, setting.block_size);
      std::string state;
      try {
        for (const std::uint8_t operation : path) operations[operation](world);
        operations[next](world);
        world.check();
      } catch (const std::logic_error& error) {
        std::string steps;
        for (const std::uint8_t operation : path) steps += std::to_string(operation) + " ";
        FAIL("after operations " << steps << "then " << next << ": " << error.what());
      }
      ++num_transitions;
      if (!seen.insert(world.state()).second) continue;
      paths.push_back(path);
      paths.back().push_back(static_cast<std::uint8_t>(next));
    }
  }
  // Exact, so that an enumeration cut short is noticed.
  INFO("block size " << setting.block_size << ": " << num_transitions << " transitions");
  CHECK(seen.size() == setting.num_states);
}
