// Chapter 5, exercise prefix_hash: the key of a block, and what must not be shared.
//
// K and V of a token depend on all tokens before it. So the key of a full block is a hash of its
// own tokens and of the key of the block before it, its parent: write that hash. Each token and
// its place must count, and when a token changes, each of the 64 bits should change about every
// second time. mix() does that for one number.
//
// The first block of a chain has a salt in the place of the parent's key, so that prompts of
// different adapters or tenants never meet. prefix_salt() makes one salt of both names. Adapter
// "x" without a tenant is not tenant "x" without an adapter, and "ab", "c" is not "a", "bc".
// Without any name the salt is 0.
//
// Declarations, with shapes and errors: src/kv/cache/prefix_index.hpp.
//
// 7 points:
//   1  the hash of the parent counts
//   2  every token and its place count
//   1  another token changes each bit about every second time
//   2  adapter and tenant are kept apart
//   1  only no names at all make the salt 0
//
// Page:  chapters/05_paged_cache/README.md
// Grade: ./kv grade 05_prefix_hash
#include "kv/cache/prefix_index.hpp"
#include "kv/exercise.hpp"

namespace kv {

// Every bit of x changes about half of the result's bits.
// Source: the finalizer of MurmurHash3 with the constants of SplitMix64 (Steele et al. 2014).
constexpr std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

std::uint64_t PrefixIndex::hash(std::uint64_t parent,
                                std::span<const std::int32_t> tokens) {
  KV_TODO();
}

std::uint64_t prefix_salt(std::string_view adapter, std::string_view tenant) {
  KV_TODO();
}

}  // namespace kv
