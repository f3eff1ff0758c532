// The allocator without exceptions and without type information, as small systems run it: that it
// compiles and links so, and that misuse ends the program with its line.
#include <cstdio>
#include <cstring>
#include <vector>

#include "kv/cache/block_allocator.hpp"

#if defined(__cpp_exceptions) || defined(__cpp_rtti)
#error "this program is built with -fno-exceptions -fno-rtti"
#endif

int main(int argc, char** argv) {
  kv::BlockAllocator allocator(3, 2);
  std::vector<kv::BlockCopy> copies;
  kv::BlockTable a{2};
  if (!allocator.reserve(a, 3, copies)) return 1;
  a.length = 3;
  kv::BlockTable b = allocator.fork(a);
  if (!allocator.reserve(b, 1, copies) || copies.size() != 1) return 2;
  b.length = 4;
  if (allocator.reserve(b, 1, copies)) return 3;  // exhausted: an answer, not an exception
  const std::vector<std::int32_t> tokens = {1, 2, 3, 4};
  allocator.publish(b, tokens);
  allocator.truncate(a, 0);
  allocator.truncate(b, 0);
  if (allocator.pool().num_free() + allocator.index().num_idle() != 3) return 4;
  if (argc > 1 && std::strcmp(argv[1], "--misuse") == 0) allocator.truncate(a, 1);
  std::puts("sound without exceptions");
  return 0;
}
