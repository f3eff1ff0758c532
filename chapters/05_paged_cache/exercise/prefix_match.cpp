// Chapter 5, exercise prefix_match: the blocks that a prompt need not compute.
//
// A prompt arrives. Which known blocks hold its beginning? match() walks over the prompt's whole
// blocks. The key of each is hash_(key of the block before, its tokens), the first one's before is
// the salt. It ends at the first block that is not known. Each block that is found gets a holder
// more, for the caller will list it, and touch(chain) marks them as used now.
//
// find() looks up one Link: what a block would be called and what it would hold. by_key_ has the
// blocks of each key, entry(block) what a block holds. Different tokens may have the same key, so
// a block is the right one only if tokens, parent and salt are the same too.
//
// Declarations, with shapes and errors: src/kv/cache/prefix_index.hpp.
//
// 9 points:
//   3  the longest chain of known blocks is found
//   1  only whole blocks of the prompt are found
//   1  each block that is found has one holder more
//   3  equal hashes are not trusted
//   1  what was found is evicted last
//
// Page:  chapters/05_paged_cache/README.md
// Grade: ./kv grade 05_prefix_match
#include <algorithm>

#include "kv/cache/prefix_index.hpp"
#include "kv/exercise.hpp"

namespace kv {

std::optional<BlockId> PrefixIndex::find(const Link& link) const {
  KV_TODO();
}

std::vector<BlockId> PrefixIndex::match(std::span<const std::int32_t> tokens,
                                        std::uint64_t salt) {
  KV_TODO();
}

}  // namespace kv
