// Defines nothing and hopes that the reference stands in for it.
#include "kv/cache/block_allocator.hpp"
