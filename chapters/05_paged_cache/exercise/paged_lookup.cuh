// Chapter 5, exercise paged_lookup: the one line that attention over blocks needs.
//
// Attention kernels ask kv_index() where key j of a sequence lies, KV head g of it, counted in
// heads: times head_dim it is an index into k and v, which are [num_blocks, block_size,
// num_kv_heads, head_dim]. In a contiguous cache that is (kv_begin + j) * num_kv_heads + g. Write
// it for a cache in blocks.
//
// The sequence's block ids begin at block_ids[rows.kv_begin]. block_size is a power of two, and
// the kernel knows its logarithm: block_shift. Ids have 32 bits; what is made of them needs 64.
//
// 6 points:
//   2  a key is found through the block table
//   2  each sequence has its own row of the table
//   1  blocks of any power of two are read
//   1  blocks far behind the first are found
//
// Page:  chapters/05_paged_cache/README.md#the-mechanism
// Grade: ./kv grade 05_paged_lookup

#include "kv/exercise.hpp"

// The parameters of an attention kernel whose keys lie in blocks: AttentionArrays with one line
// changed.
#pragma once

#include "attention/arrays.cuh"

namespace kv::KV_BACKEND {

/// k and v are [num_blocks, block_size, num_kv_heads, head_dim]. SequenceRows::kv_begin is where
/// the sequence's ids begin in block_ids; none of the first kv_len / block_size, rounded up, is -1.
template <typename T>
struct PagedArrays : AttentionArrays<T> {
  const std::int32_t* block_ids;  ///< [num_sequences, max_blocks]
  int block_shift;                ///< log2 of block_size

  /// Index of key j, KV head g in units of a head. Ids are 32-bit; what is made of them is not.
  __device__ std::int64_t kv_index(const SequenceRows& rows, std::int64_t j, int g) const {
    KV_TODO();
  }
};

/// The kernel's view of a launch.
template <typename T>
PagedArrays<T> paged_arrays(const AttentionLaunch& launch) {
  PagedArrays<T> a{arrays<T>(launch), launch.tables.block_ids, 0};
  while (1 << a.block_shift < launch.tables.block_size) ++a.block_shift;
  return a;
}

}  // namespace kv::KV_BACKEND
