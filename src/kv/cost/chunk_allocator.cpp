#include "kv/cost/chunk_allocator.hpp"

#include <bit>
#include <iterator>

#include "kv/check.hpp"

namespace kv {
namespace {

int log2_floor(std::int64_t x) { return std::bit_width(static_cast<std::uint64_t>(x)) - 1; }
int log2_ceil(std::int64_t x) { return std::bit_width(static_cast<std::uint64_t>(x - 1)); }

}  // namespace

FirstFit::FirstFit(std::int64_t capacity) : capacity_(capacity), holes_{{0, capacity}} {
  require(capacity > 0, "a memory holds something");
}

//! [first fit]
std::optional<Chunk> FirstFit::allocate(std::int64_t size) {
  require(size > 0, "a chunk has a size");
  for (auto hole = holes_.begin(); hole != holes_.end(); ++hole) {
    const auto [begin, hole_size] = *hole;
    if (hole_size < size) continue;
    holes_.erase(hole);
    if (hole_size > size) holes_.emplace(begin + size, hole_size - size);
    return Chunk{begin, size};
  }
  return std::nullopt;
}
//! [first fit]

void FirstFit::free(const Chunk& chunk) {
  const auto [hole, is_new] = holes_.emplace(chunk.begin, chunk.size);
  require(is_new, "a chunk was given back twice");
  if (const auto after = std::next(hole);
      after != holes_.end() && after->first == hole->first + hole->second) {
    hole->second += after->second;
    holes_.erase(after);
  }
  if (hole == holes_.begin()) return;
  if (const auto before = std::prev(hole); before->first + before->second == hole->first) {
    before->second += hole->second;
    holes_.erase(hole);
  }
}

Buddies::Buddies(std::int64_t capacity) : capacity_(capacity) {
  require(capacity > 0, "a memory holds something");
  free_.resize(static_cast<std::size_t>(log2_floor(capacity)) + 1);
  std::int64_t begin = 0;
  for (int k = log2_floor(capacity); k >= 0; --k)
    if ((capacity >> k & 1) != 0) {
      free_[static_cast<std::size_t>(k)].insert(begin);
      begin += std::int64_t{1} << k;
    }
}

//! [buddies]
std::optional<Chunk> Buddies::allocate(std::int64_t size) {
  require(size > 0, "a chunk has a size");
  const auto wanted = static_cast<std::size_t>(log2_ceil(size));
  std::size_t k = wanted;
  while (k < free_.size() && free_[k].empty()) ++k;
  if (k >= free_.size()) return std::nullopt;
  const std::int64_t begin = *free_[k].begin();
  free_[k].erase(free_[k].begin());
  // The upper half of each cut is free again.
  while (k > wanted) {
    --k;
    free_[k].insert(begin + (std::int64_t{1} << k));
  }
  return Chunk{begin, std::int64_t{1} << wanted};
}

void Buddies::free(const Chunk& chunk) {
  std::int64_t begin = chunk.begin;
  auto k = static_cast<std::size_t>(log2_floor(chunk.size));
  // A chunk and the half that it was cut from differ in one binary digit of where they begin.
  for (; k + 1 < free_.size(); ++k) {
    const std::int64_t buddy = begin ^ (std::int64_t{1} << k);
    if (free_[k].erase(buddy) == 0) break;
    begin = begin < buddy ? begin : buddy;
  }
  require(free_[k].insert(begin).second, "a chunk was given back twice");
}
//! [buddies]

std::int64_t Buddies::largest() const { return std::int64_t{1} << log2_floor(capacity_); }

}  // namespace kv
