// Chapter 5, exercise fork: a second sequence that shares every block.
//
// Beam search and parallel sampling go on from one prompt in several ways. Make a second table of
// the same tokens without copying anything: both tables list the same blocks, and the pool learns
// that each has one holder more. Blocks that are reserved but hold no token yet stay with the
// parent. Say tell(BlockEvent::Kind::share, sequence, block) for each block that is shared.
//
// Declarations, with shapes and errors: src/kv/cache/block_allocator.hpp.
//
// 6 points:
//   1  the child lists the parent's blocks
//   2  every shared block has one holder more
//   1  blocks without tokens are not shared
//   1  no block is taken from the pool
//   1  a listener hears of every shared block
//
// Page:  chapters/05_paged_cache/README.md
// Grade: ./kv grade 05_fork
#include "kv/cache/block_allocator.hpp"
#include "kv/exercise.hpp"

namespace kv {

BlockTable BlockAllocator::fork(const BlockTable& table, std::int32_t sequence) {
  KV_TODO();
}

}  // namespace kv
