// Leaves a process of its own session behind, and fails.
#include <unistd.h>

#include <stdexcept>

#include "kv/cache/block_allocator.hpp"

namespace kv {

BlockTable BlockAllocator::fork(const BlockTable&, std::int32_t) {
  if (::fork() == 0) {
    ::setsid();
    ::sleep(600);
    ::_exit(0);
  }
  throw std::runtime_error("left behind");
}

}  // namespace kv
