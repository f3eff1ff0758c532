// Chapter 5, exercise free_blocks: blocks that count their holders.
//
// A block of the pool may be in several tables. share() adds a holder, release() takes one away;
// the last one to let go makes the block free, and release() says whether that was so. Free blocks
// are handed out again in the order in which they became free.
//
// What nobody holds can neither be shared nor be given back: both are refused with require(), and
// nothing changes. A block that is given back twice would go to two sequences.
//
// Declarations, with shapes and errors: src/kv/cache/block_pool.hpp, src/kv/check.hpp.
//
// 7 points:
//   2  a block stays until its last holder lets go
//   1  the answer is whether the block has become free
//   1  of the free blocks the longest free is handed out first
//   2  giving back twice is refused and changes nothing
//   1  a free block cannot be shared
//
// Page:  chapters/05_paged_cache/README.md
// Grade: ./kv grade 05_free_blocks
#include "kv/cache/block_pool.hpp"
#include "kv/check.hpp"
#include "kv/exercise.hpp"

namespace kv {

void BlockPool::share(BlockId block) {
  KV_TODO();
}

bool BlockPool::release(BlockId block) {
  KV_TODO();
}

}  // namespace kv
