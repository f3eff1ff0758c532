// Prints a gigabyte.
#include <cstdio>
#include <string>

#include "kv/cache/block_allocator.hpp"

namespace kv {

BlockTable BlockAllocator::fork(const BlockTable&, std::int32_t) {
  const std::string line(1 << 20, 'x');
  for (int i = 0; i < 1024; ++i) std::puts(line.c_str());
  return {};
}

}  // namespace kv
