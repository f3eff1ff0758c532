// Where the tokens of one sequence lie: the list of its blocks.
#pragma once

#include <cstdint>
#include <vector>

#include "kv/cache/block_pool.hpp"

namespace kv {

/// A place for one token in the memory of all blocks: block * block_size + place in the block.
/// Offsets are 64-bit: 65,536 blocks of 32,768 elements already need 2^31.
using Slot = std::int64_t;

/// Blocks of block_size tokens that `num_tokens` tokens fill: the last one may be filled in part.
constexpr std::int64_t num_blocks_for(std::int64_t num_tokens, std::int32_t block_size) {
  return (num_tokens + block_size - 1) / block_size;
}

/// Tokens in the last block of num_tokens: 0 for no tokens at all, else 1 to block_size.
constexpr std::int64_t tokens_in_last_block(std::int64_t num_tokens, std::int32_t block_size) {
  return num_tokens == 0 ? 0 : (num_tokens - 1) % block_size + 1;
}

/// The blocks of one sequence in the order of its tokens. Plain data: BlockAllocator changes it.
///
/// Invariant: num_blocks_for(length) <= blocks.size(); no block occurs twice.
struct BlockTable {
  std::int32_t block_size = 16;      ///< tokens of a block
  std::vector<BlockId> blocks = {};  ///< in the order of the tokens
  std::int64_t length = 0;           ///< committed tokens; slots behind them may be reserved

  /// Tokens that fit into the blocks that are there.
  std::int64_t num_slots() const { return static_cast<std::int64_t>(blocks.size()) * block_size; }
  /// Where token t lies, or will lie; t < num_slots().
  Slot slot(std::int64_t t) const;
};

/// The slot mapping: where tokens first ... first + num_tokens - 1 lie, or will lie.
std::vector<Slot> slot_mapping(const BlockTable& table, std::int64_t first,
                               std::int64_t num_tokens);

#ifndef KV_EXERCISE_SLOT_MAPPING  // chapter 5: a reader's own take their place
//! [slot mapping]
inline Slot BlockTable::slot(std::int64_t t) const {
  const BlockId block = blocks[static_cast<std::size_t>(t / block_size)];
  return static_cast<Slot>(block) * block_size + t % block_size;
}

inline std::vector<Slot> slot_mapping(const BlockTable& table, std::int64_t first,
                                      std::int64_t num_tokens) {
  std::vector<Slot> slots;
  slots.reserve(static_cast<std::size_t>(num_tokens));
  for (std::int64_t t = first; t < first + num_tokens; ++t) slots.push_back(table.slot(t));
  return slots;
}
//! [slot mapping]
#endif

}  // namespace kv
