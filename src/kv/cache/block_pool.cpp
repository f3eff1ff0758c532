#include "kv/cache/block_pool.hpp"

#include "kv/check.hpp"
#include "kv/exercise.hpp"

namespace kv {

BlockPool::BlockPool(BlockId num_blocks) {
  require(num_blocks >= 0, "the number of blocks must not be negative");
  holders_.assign(static_cast<std::size_t>(num_blocks), 0);
  for (BlockId block = 0; block < num_blocks; ++block) free_.push_back(block);
}

//! [allocate]
std::optional<BlockId> BlockPool::allocate() {
  if (free_.empty()) return std::nullopt;
  const BlockId block = free_.front();
  free_.pop_front();
  holders_[static_cast<std::size_t>(block)] = 1;
  return block;
}
//! [allocate]

//! [holders]
KV_EXERCISE void BlockPool::share(BlockId block) {
  require(num_holders(block) > 0, "only a block that somebody holds can be shared");
  ++holders_[static_cast<std::size_t>(block)];
}

KV_EXERCISE bool BlockPool::release(BlockId block) {
  require(num_holders(block) > 0, "nobody holds the block: it was given back twice");
  if (--holders_[static_cast<std::size_t>(block)] > 0) return false;
  free_.push_back(block);
  return true;
}
//! [holders]

std::int32_t BlockPool::num_holders(BlockId block) const {
  require(block >= 0 && block < num_blocks(), "there is no such block");
  return holders_[static_cast<std::size_t>(block)];
}

}  // namespace kv
