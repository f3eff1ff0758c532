// Chapter 5, exercise truncate: a sequence that becomes shorter, or ends.
//
// A sequence that ends, or takes tokens back, keeps the first num_tokens tokens and the blocks
// that hold them. All other blocks, reserved ones too, leave the table from its end and lose a
// holder: release(block, sequence) says whether that was the last one. Only then does the block go
// into `freed`, if `freed` is not null. More tokens than there are, or fewer than 0, are refused
// with require().
//
// Declarations, with shapes and errors: src/kv/cache/block_allocator.hpp, src/kv/check.hpp.
//
// 7 points:
//   2  blocks that hold no token go back to the pool
//   1  a block that still holds a token stays
//   2  what another sequence holds is not freed
//   1  blocks that were only reserved go back too
//   1  more tokens than there are is refused
//
// Page:  chapters/05_paged_cache/README.md
// Grade: ./kv grade 05_truncate
#include "kv/cache/block_allocator.hpp"
#include "kv/check.hpp"
#include "kv/exercise.hpp"

namespace kv {

void BlockAllocator::truncate(BlockTable& table, std::int64_t num_tokens,
                              std::vector<BlockId>* freed, std::int32_t sequence) {
  KV_TODO();
}

}  // namespace kv
