// Chapter 5, exercise append_boundary: room for the next tokens.
//
// Before a pass writes its rows, a sequence reserves room for them: give the table as many blocks
// as length + num_tokens tokens need and it does not have yet. A block is taken when a token goes
// behind a full one, not before. Repeating a call changes nothing, and for 0 tokens there is
// nothing to do.
//
// When the last block is shared, shares_last_block(table), one block more is needed: call
// copy_last_block() first, take() the new blocks, and release() last of all the block that
// copy_last_block() returned.
//
// All or nothing: count before the first block is taken. Free are the blocks of the pool and those
// that the prefix index would give up, index_.num_idle(). When they do not suffice, say
// tell(BlockEvent::Kind::exhausted, sequence, -1) and return false. A table of another block size
// and fewer than 0 or more than kMostTokens tokens are refused with require().
//
// Declarations, with shapes and errors: src/kv/cache/block_allocator.hpp, src/kv/check.hpp.
//
// 8 points:
//   2  a block is taken at the first token behind a full one, not before
//   1  no two tokens share a slot
//   3  when blocks run out nothing has changed
//   1  asking again takes nothing
//   1  blocks that only the prefix index holds can be taken
//
// Page:  chapters/05_paged_cache/README.md
// Grade: ./kv grade 05_append_boundary
#include <algorithm>
#include <optional>

#include "kv/cache/block_allocator.hpp"
#include "kv/check.hpp"
#include "kv/exercise.hpp"

namespace kv {

constexpr std::int64_t kMostTokens = std::int64_t{1} << 62;  // sums of two still fit 63 bits

bool BlockAllocator::reserve(BlockTable& table, std::int64_t num_tokens,
                             std::vector<BlockCopy>& copies, std::int32_t sequence,
                             std::vector<BlockId>* evicted) {
  KV_TODO();
}

}  // namespace kv
