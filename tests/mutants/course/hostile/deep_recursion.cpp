// Fills the stack.

#include "kv/cache/block_allocator.hpp"

namespace {

// Not a tail call: the result is changed afterwards.
int deeper(int depth) { return depth + deeper(depth + 1) * 3; }

}  // namespace

namespace kv {

BlockTable BlockAllocator::fork(const BlockTable&, std::int32_t) { return {deeper(0), {}, 0}; }

}  // namespace kv
