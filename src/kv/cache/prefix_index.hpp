// Which full blocks hold which tokens: so that a prompt finds what another one has computed.
#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "kv/cache/block_pool.hpp"

namespace kv {

/// Full blocks by what they hold: their own tokens and, through the parent, all tokens before.
///
/// K and V of a token depend on every token before it, so a block may only be reused behind the
/// same beginning. Its key is the hash of (parent's key, salt, its tokens), a chain; on a hit
/// tokens and parent are compared, so equal hashes of different tokens do no harm.
///
/// The index holds each of its blocks once in the pool. A block that nobody else holds is idle and
/// may be evicted: the one that was used least recently first, children before their parents.
class PrefixIndex {
 public:
  /// Hash of a block; another one can be given to force collisions in tests.
  using Hash = std::uint64_t (*)(std::uint64_t parent, std::span<const std::int32_t> tokens);
  /// The hash that is used unless another one is given.
  ///
  /// \param parent hash of the block before
  /// \param tokens of the block
  static std::uint64_t hash(std::uint64_t parent, std::span<const std::int32_t> tokens);

  /// \param pool       counts the holders; must outlive this
  /// \param block_size tokens of a block
  /// \param hash       of a block's tokens and all before; another one forces collisions in tests
  PrefixIndex(BlockPool& pool, std::int32_t block_size, Hash hash = PrefixIndex::hash);

  /// The longest chain of known blocks at the beginning of `tokens`; each gets one more holder, and
  /// counts as used now.
  ///
  /// \param tokens the prompt
  /// \param salt   keeps apart what must not be shared (another adapter, another user)
  std::vector<BlockId> match(std::span<const std::int32_t> tokens, std::uint64_t salt = 0);

  /// Learns the full blocks of a sequence. Where the same tokens are known already, the known block
  /// stays and the sequence keeps its own.
  ///
  /// \param tokens all tokens of the sequence, at least those of the full blocks
  /// \param blocks its blocks; those that tokens fill are learned
  /// \param salt   what was learned with one number is not found with another
  void insert(std::span<const std::int32_t> tokens, std::span<const BlockId> blocks,
              std::uint64_t salt = 0);

  /// Forgets the least recently used idle block that has no child, and gives it back to the pool.
  /// \return its id; nothing when every block is in use
  std::optional<BlockId> evict();

  /// Blocks that are known.
  std::int64_t size() const;
  /// Known blocks that evict() could give back one after the other.
  std::int64_t num_idle() const;
  /// Whether the block is known.
  bool knows(BlockId block) const;
  /// The known block before a known one; -1 when it holds the beginning of its sequence.
  BlockId parent(BlockId block) const;

 private:
  // What a known block holds. A parent cannot be forgotten before its children, so its id stands
  // for all tokens before.
  struct Entry {
    bool known = false;
    std::uint64_t key = 0;
    std::uint64_t salt = 0;
    BlockId parent = -1;
    std::int32_t num_children = 0;
    std::vector<std::int32_t> tokens;     // [block_size]
    std::list<BlockId>::iterator in_use;  // its place in by_use_
  };
  // A block's tokens and what lies before them, while a chain is walked.
  struct Link {
    BlockId parent = -1;
    std::uint64_t key = 0;  // of the block itself
    std::uint64_t salt = 0;
    std::span<const std::int32_t> tokens = {};
  };

  /// The known block of a link. Its key finds candidates; equal hashes are not enough: tokens,
  /// parent and salt must be the same.
  std::optional<BlockId> find(const Link& link) const;
  void learn(BlockId block, const Link& link);
  /// Marks a chain as used now. The deepest block first: a parent is then always more recent than
  /// its children, and the least recently used block has none.
  void touch(std::span<const BlockId> chain);
  Entry& entry(BlockId block) { return entries_[static_cast<std::size_t>(block)]; }
  const Entry& entry(BlockId block) const { return entries_[static_cast<std::size_t>(block)]; }

  BlockPool& pool_;
  std::int32_t block_size_;
  Hash hash_;
  std::vector<Entry> entries_;  // [num_blocks]
  std::unordered_multimap<std::uint64_t, BlockId> by_key_;
  std::list<BlockId>
      by_use_;  // known blocks, the least recently used first; children before parents
};

/// One salt for what must not be shared across adapters and across tenants. The two names cannot be
/// mistaken for each other: adapter "x" without a tenant is not tenant "x" without an adapter.
///
/// \param adapter name of what changes K and V; empty = none
/// \param tenant  who may see the blocks; empty = everybody
/// \return a hash of 64 bits; 0 when both are empty
std::uint64_t prefix_salt(std::string_view adapter, std::string_view tenant);

}  // namespace kv
