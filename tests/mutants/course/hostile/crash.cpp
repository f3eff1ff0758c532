// Writes through a null pointer.

#include "kv/cache/block_allocator.hpp"

namespace kv {

BlockTable BlockAllocator::fork(const BlockTable&, std::int32_t) {
  *static_cast<volatile int*>(nullptr) = 1;
  return {};
}

}  // namespace kv
