// Chapter 5, exercise copy_on_write: a block of its own before the first write.
//
// After a fork, two sequences hold the same last block, and both want to write behind its last
// token. shares_last_block() says whether the next token of a table goes into a block that others
// hold too. A full block is never written again, so it needs no copy, however many hold it.
//
// copy_last_block() gives the table a block of its own in that place: take(sequence, evicted) has
// one. Blocks that are reserved behind it stay. Add a BlockCopy to `copies`: from which block to
// which, and how many tokens of it are in use. Say tell(BlockEvent::Kind::copy, sequence, new
// block, old block). Return the old block; reserve(), which calls both, releases it when it has
// taken all its blocks.
//
// Declarations, with shapes and errors: src/kv/cache/block_allocator.hpp.
//
// 8 points:
//   2  exactly one block is copied, by the first that writes
//   1  only the tokens in use are copied
//   2  each sequence reads its own tokens
//   2  full blocks and blocks of its own are written in place
//   1  reserved blocks behind the last token stay
//
// Page:  chapters/05_paged_cache/README.md
// Grade: ./kv grade 05_copy_on_write
#include <utility>

#include "kv/cache/block_allocator.hpp"
#include "kv/exercise.hpp"

namespace kv {

bool BlockAllocator::shares_last_block(const BlockTable& table) const {
  KV_TODO();
}

BlockId BlockAllocator::copy_last_block(BlockTable& table,
                                        std::vector<BlockCopy>& copies,
                                        std::int32_t sequence,
                                        std::vector<BlockId>* evicted) {
  KV_TODO();
}

}  // namespace kv
