// Blocks of equal size that sequences borrow: who is free, and how many hold each of the others.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace kv {

/// A KV block: room for block_size tokens in every layer. Ids are 0 to num_blocks - 1.
using BlockId = std::int32_t;

/// Counts the holders of each block. It knows nothing of tokens, tables or memory.
///
/// Invariants: a block is in the free list exactly when nobody holds it; free + held = num_blocks.
/// Blocks are handed out in the order in which they became free, at first 0, 1, 2, ...
class BlockPool {
 public:
  /// \param num_blocks not negative
  explicit BlockPool(BlockId num_blocks);

  /// Takes a free block, with one holder. \return nothing when there is none: a normal answer
  [[nodiscard]] std::optional<BlockId> allocate();
  /// One more holder of a held block.
  void share(BlockId block);
  /// One holder less. \return whether the block has become free
  /// \throws std::invalid_argument when nobody holds it: it was given back twice
  bool release(BlockId block);

  /// How many hold the block; 0 when it is free.
  std::int32_t num_holders(BlockId block) const;
  /// Blocks in all.
  BlockId num_blocks() const { return static_cast<BlockId>(holders_.size()); }
  /// Blocks that nobody holds.
  BlockId num_free() const { return static_cast<BlockId>(free_.size()); }
  /// The free blocks in the order in which they will be handed out.
  const std::deque<BlockId>& free_blocks() const { return free_; }

 private:
  std::vector<std::int32_t> holders_;  // [num_blocks]
  std::deque<BlockId> free_;           // the longest free first
};

}  // namespace kv
