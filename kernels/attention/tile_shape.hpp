// How much of the problem one CTA takes in steps 1 to 4 and 6: for the kernels, and for the host
// code that predicts their traffic.
#pragma once

namespace kv {

/// Warps that share the keys of one query row in steps 1 and 2.
inline constexpr int kWarpsPerRow = 4;

/// Query rows of a CTA of step 3: as many as leave the accumulators in registers (64 a thread at
/// head_dim 128) and all tiles in the 64 KiB of shared memory that the smallest GPU has (sm_75).
constexpr int tiled_rows(int head_dim) { return head_dim <= 128 ? 64 : 32; }

/// Keys of a tile of step 3, by the same limits.
constexpr int tiled_keys(int head_dim) { return head_dim <= 128 ? 32 : 16; }

/// Query rows of a CTA of step 4: four warps with the 16 rows of an mma each.
inline constexpr int kTensorCoreRows = 64;

/// Keys of a tile of step 4: the accumulators leave no registers for 64 scores at head_dim 256.
constexpr int tensor_core_keys(int head_dim) { return head_dim <= 128 ? 64 : 32; }

/// Of the head_dim / 16 operands that hold the queries of step 4, those that lie in shared memory:
/// half of them where 255 registers are not enough for all.
constexpr int tensor_core_parked(int head_dim) { return head_dim <= 128 ? 0 : 8; }

/// Query heads that an item of step 6 computes at most: the accumulators of 32 (two mma) fill half
/// of the registers at head_dim 128.
constexpr int grouped_most_heads(int head_dim) { return head_dim <= 128 ? 32 : 16; }

/// Query heads of one KV head that an item of step 6 computes: the whole group, so that each row of
/// K and V is read once; of a larger group the largest part that divides it.
/// \param group_size query heads of a KV head
/// \param head_dim   elements of a head
constexpr int grouped_heads(int group_size, int head_dim) {
  int heads = group_size < grouped_most_heads(head_dim) ? group_size : grouped_most_heads(head_dim);
  while (group_size % heads != 0) --heads;
  return heads;
}

/// Warps of a CTA of step 6; each has a part of shared memory, its ring, to itself.
constexpr int grouped_warps(int head_dim) { return head_dim <= 128 ? 4 : 2; }

/// Keys of a tile of step 6. A slot of a warp's ring holds the keys or the values of one tile: 2.5
/// to 8 KiB. An mma takes 16 keys; where a row is short more of them share the cost of a step.
/// \param head_dim      elements of a row
/// \param element_bytes 2 or 4
constexpr int grouped_keys(int head_dim, int element_bytes) {
  const int in_16_bit = head_dim <= 32 ? 64 : head_dim <= 64 ? 32 : 16;
  return element_bytes == 2 ? in_16_bit : in_16_bit / 2;
}

/// Slots of a warp's ring in step 6: 48 KiB a CTA, so that with the queries (16 KiB at most) a CTA
/// still fits into the 64 KiB of the smallest GPU (sm_75). All of them are under way while a warp
/// waits: more than the 40 KiB that an SM must have, with a single CTA.
constexpr int grouped_slots(int head_dim) {
  return 48 * 1024 / (grouped_warps(head_dim) * grouped_keys(head_dim, 2) * head_dim * 2);
}

}  // namespace kv
