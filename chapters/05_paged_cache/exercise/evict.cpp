// Chapter 5, exercise evict: which known block goes when the pool is empty.
//
// The pool is empty and the prefix index holds blocks that no sequence holds. Give one of them
// back to the pool: of those that only the index holds and that have no known child, the one that
// was used least recently. by_use_ lists the known blocks, the least recently used first. Return
// its id, or nothing when there is none.
//
// Forget it everywhere: in by_key_, where other blocks may have the same key, in by_use_, in its
// parent's num_children, and in its own entry, which becomes Entry{}.
//
// Declarations, with shapes and errors: src/kv/cache/prefix_index.hpp.
//
// 8 points:
//   2  the least recently used block goes first
//   2  children go before their parents
//   2  a block that a sequence holds stays
//   2  an evicted block is free and forgotten
//
// Page:  chapters/05_paged_cache/README.md
// Grade: ./kv grade 05_evict
#include <algorithm>

#include "kv/cache/prefix_index.hpp"
#include "kv/exercise.hpp"

namespace kv {

std::optional<BlockId> PrefixIndex::evict() {
  KV_TODO();
}

}  // namespace kv
