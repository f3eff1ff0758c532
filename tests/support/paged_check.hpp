// Looking into the memory of a pool.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "kv/cache/paged.hpp"

namespace kv_test {

/// Element `index` of an array in a cache's format.
inline float element(const std::byte* base, kv::DType dtype, std::int64_t index) {
  const auto read = [&](auto value) {
    std::memcpy(&value, base + index * static_cast<std::int64_t>(sizeof value), sizeof value);
    return kv::to_float(value);
  };
  if (dtype == kv::DType::f16) return read(kv::f16{});
  if (dtype == kv::DType::bf16) return read(kv::bf16{});
  return read(0.0f);
}

/// Whether every element of K and V of a slot is NaN, in every layer; otherwise whether none is.
/// \throws std::logic_error when some are and some are not
inline bool slot_is_nan(const kv::BlockStorage& storage, kv::Slot slot) {
  const kv::BlockShape& shape = storage.shape();
  std::int64_t num_nan = 0, num_elements = 0;
  for (int l = 0; l < shape.num_layers; ++l)
    for (const std::byte* base : {storage.k(l), storage.v(l)})
      for (std::int64_t e = 0; e < shape.heads.kv_dim(); ++e, ++num_elements)
        num_nan += std::isnan(element(base, shape.dtype, slot * shape.heads.kv_dim() + e)) ? 1 : 0;
  if (num_nan != 0 && num_nan != num_elements) throw std::logic_error("a slot is NaN in part");
  return num_nan != 0;
}

/// Whether all free blocks are NaN.
inline bool free_blocks_are_nan(const kv::PagedPool& pool) {
  const std::int64_t size = pool.allocator.block_size();
  return std::ranges::all_of(pool.allocator.pool().free_blocks(), [&](kv::BlockId block) {
    for (std::int64_t i = 0; i < size; ++i)
      if (!slot_is_nan(*pool.storage, block * size + i)) return false;
    return true;
  });
}

/// Brings the free blocks of a pool into a random order, so that tables come out shuffled.
inline void shuffle_free_blocks(const std::shared_ptr<kv::PagedPool>& pool, unsigned seed) {
  std::vector<kv::PagedCache> holders;
  while (pool->allocator.pool().num_free() > 0) {
    holders.emplace_back(pool);
    if (!holders.back().reserve(1)) throw std::logic_error("a free block could not be taken");
  }
  std::mt19937 random(seed);
  while (!holders.empty()) {  // std::shuffle differs from library to library
    std::swap(holders[random() % holders.size()], holders.back());
    holders.pop_back();
  }
}

}  // namespace kv_test
