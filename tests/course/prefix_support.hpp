// What the tests of the prefix index share.
#pragma once

#include <span>
#include <vector>

#include "course/support.hpp"
#include "kv/cache/prefix_index.hpp"

namespace kv_course {

using Blocks = std::vector<kv::BlockId>;
using Tokens = std::vector<std::int32_t>;

/// A hash under which everything collides.
inline std::uint64_t same_hash(std::uint64_t, std::span<const std::int32_t>) { return 42; }

/// A pool and its prefix index. The block size comes from the seed.
struct PrefixWorld {
  explicit PrefixWorld(std::uint64_t salt, kv::PrefixIndex::Hash hash = kv::PrefixIndex::hash)
      : random(random_numbers(salt)), index(pool, block_size, hash) {}

  /// Tokens that fill one block and occur in no other block: the first is a number of its own.
  Tokens block() {
    Tokens tokens = {next++};
    while (static_cast<std::int32_t>(tokens.size()) < block_size)
      tokens.push_back(static_cast<std::int32_t>(pick(random, 0, 999)));
    return tokens;
  }

  /// The index learns a sequence of whole blocks. \return the blocks; the sequence holds them too
  Blocks learn(const Tokens& tokens, std::uint64_t salt = 0) {
    Blocks blocks;
    for (std::size_t i = 0; i < tokens.size(); i += static_cast<std::size_t>(block_size)) {
      const auto block = pool.allocate();
      REQUIRE(block.has_value());
      blocks.push_back(*block);
    }
    index.insert(tokens, blocks, salt);
    return blocks;
  }

  /// The index learns a sequence that ends at once: nobody but the index holds its blocks.
  Blocks learn_idle(const Tokens& tokens) {
    const Blocks blocks = learn(tokens);
    let_go(blocks);
    return blocks;
  }

  /// A sequence ends.
  void let_go(const Blocks& blocks) {
    for (const kv::BlockId block : blocks) pool.release(block);
  }

  std::mt19937_64 random;
  std::int32_t next = 1000;
  std::int32_t block_size = static_cast<std::int32_t>(pick(random, 3, 8));
  kv::BlockPool pool{20};
  kv::PrefixIndex index;
};

/// One after the other.
inline Tokens operator+(const Tokens& a, const Tokens& b) {
  Tokens all = a;
  all.insert(all.end(), b.begin(), b.end());
  return all;
}

}  // namespace kv_course
