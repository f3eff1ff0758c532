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
    //! [kv_index]
    const std::int64_t block = block_ids[rows.kv_begin + (j >> block_shift)];
    const std::int64_t slot = (block << block_shift) + (j & ((1 << block_shift) - 1));
    return slot * this->num_kv_heads + g;
    //! [kv_index]
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
