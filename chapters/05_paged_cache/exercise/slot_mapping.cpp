// Chapter 5, exercise slot_mapping: where a token lies.
//
// The memory of all blocks is a row of slots, block_size of them to a block: block 0 has slots 0
// to block_size - 1, block 1 the next ones. A sequence's table lists its blocks in the order of
// its tokens. Write the slot of token t (from 0), and the slot mapping of a pass: the slots of
// tokens first to first + num_tokens - 1, in their order.
//
// Ids of blocks have 32 bits, slots have 64: Slot is std::int64_t.
//
// Declarations, with shapes and errors: src/kv/cache/block_table.hpp.
//
// 6 points:
//   2  a token lies in its block, at its place
//   1  the last token of a full block is still in that block
//   2  the mapping has one slot for each new token
//   1  a slot has 64 bits
//
// Page:  chapters/05_paged_cache/README.md#the-equations
// Grade: ./kv grade 05_slot_mapping
#include "kv/cache/block_table.hpp"
#include "kv/exercise.hpp"

namespace kv {

Slot BlockTable::slot(std::int64_t t) const {
  KV_TODO();
}

std::vector<Slot> slot_mapping(const BlockTable& table, std::int64_t first,
                               std::int64_t num_tokens) {
  KV_TODO();
}

}  // namespace kv
