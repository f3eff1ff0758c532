// What the attention kernels share: their parameters, and the choice of a template's instance.
#pragma once

#include <type_traits>

#include "attention/attention.hpp"
#include "kernel.cuh"

namespace kv::KV_BACKEND {

/// The parameters of every attention kernel; T is the format of K and V.
///
/// Letters: t query row, j key, h query head, g KV head, d element of a head.
template <typename T>
struct AttentionArrays {
  const float* q;                 ///< [num_q_rows, num_q_heads, head_dim]
  const T* k;                     ///< [num_kv_rows, num_kv_heads, head_dim]
  const T* v;                     ///< [num_kv_rows, num_kv_heads, head_dim]
  float* out;                     ///< [num_q_rows, num_q_heads, head_dim]
  float* lse;                     ///< [num_q_rows, num_q_heads] or null
  const SequenceRows* sequences;  ///< [num_sequences]
  int num_q_heads;                ///< query heads
  int num_kv_heads;               ///< KV heads
  float scale;                    ///< factor on q.k
  bool causal;                    ///< which keys a row sees: visible_keys()

  /// The rows of a sequence. All kernels read the table here: counts of traffic leave it out by
  /// file (traffic.hpp).
  __device__ SequenceRows rows_of(int sequence) const { return sequences[sequence]; }

  /// KV head that query head h reads.
  __device__ int kv_head(int h) const { return h / (num_q_heads / num_kv_heads); }

  /// Index of query row t, head h in units of a head: in q and out times head_dim, in lse as is.
  __device__ std::int64_t q_index(const SequenceRows& rows, int t, int h) const {
    return (rows.q_begin + t) * num_q_heads + h;
  }
  /// Index of key j, KV head g in units of a head. Chapter 5 changes this line.
  __device__ std::int64_t kv_index(const SequenceRows& rows, std::int64_t j, int g) const {
    return (rows.kv_begin + j) * num_kv_heads + g;
  }
};

/// Whether the row `step` keys after another lies step * num_kv_heads further on: then a kernel may
/// add instead of asking kv_index() again.
template <typename Arrays>
inline constexpr bool kRowsAreEquidistant = false;
/// They are: rows lie one behind the other.
template <typename T>
inline constexpr bool kRowsAreEquidistant<AttentionArrays<T>> = true;

/// Entry i of a table that the host made: as rows_of(), left out of the counts of traffic.
template <typename Entry>
__device__ inline Entry plan_entry(const Entry* table, int i) {
  return table[i];
}

/// The kernel's view of a launch.
template <typename T>
AttentionArrays<T> arrays(const AttentionLaunch& launch) {
  return {launch.q,
          static_cast<const T*>(launch.k),
          static_cast<const T*>(launch.v),
          launch.out,
          launch.lse,
          launch.sequences,
          launch.shape.heads.num_q_heads,
          launch.shape.heads.num_kv_heads,
          launch.shape.scale,
          launch.shape.causal};
}

/// A number as a type, for a choice at compile time.
template <int kValue>
using Int = std::integral_constant<int, kValue>;

/// Calls body(T{}, Int<head_dim>{}) for the format and the head size of a validated shape.
template <typename T, typename Body>
void with_head_dim(int head_dim, const Body& body) {
  switch (head_dim) {
    case 64:
      return body(T{}, Int<64>{});
#ifndef KV_ONE_HEAD_DIM  // kernels with planted bugs are compiled many times, for one size
    case 32:
      return body(T{}, Int<32>{});
    case 80:
      return body(T{}, Int<80>{});
    case 96:
      return body(T{}, Int<96>{});
    case 128:
      return body(T{}, Int<128>{});
    case 256:
      return body(T{}, Int<256>{});
#endif
  }
  require(false, "no kernel for this head_dim: AttentionShape::validate() was not called");
}

/// The same for any of the three formats.
/// \param shape gives format and head_dim
/// \param body  called with a value of the element type and the head_dim as a constant
template <typename Body>
void with_kernel_types(const AttentionShape& shape, const Body& body) {
  switch (shape.kv_dtype) {
    case DType::f16:
      return with_head_dim<f16>(shape.heads.head_dim, body);
    case DType::bf16:
      return with_head_dim<bf16>(shape.heads.head_dim, body);
    default:
      return with_head_dim<float>(shape.heads.head_dim, body);
  }
}

// The host entries of the steps, one a file.
void launch_two_pass(const AttentionLaunch& launch);     ///< step 1
void launch_online(const AttentionLaunch& launch);       ///< step 2
void launch_tiled(const AttentionLaunch& launch);        ///< step 3
void launch_tensor_core(const AttentionLaunch& launch);  ///< step 4
void launch_split_kv(const AttentionLaunch& launch);     ///< step 5
void launch_grouped(const AttentionLaunch& launch);      ///< step 6
void launch_paged(const AttentionLaunch& launch);        ///< step 7

/// Merges the partial results of a plan, for every kernel that splits: in 05_split_kv.cu.
void launch_merge(const AttentionLaunch& launch);

}  // namespace kv::KV_BACKEND
