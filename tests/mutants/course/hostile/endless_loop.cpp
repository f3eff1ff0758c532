// Never returns.

#include "kv/cache/block_allocator.hpp"

namespace kv {

BlockTable BlockAllocator::fork(const BlockTable&, std::int32_t) {
  for (volatile int i = 0;; i = i + 1) {
  }
}

}  // namespace kv
