// How much of the problem one CTA takes in steps 1 to 4: for the kernels, and for the host code
// that predicts their traffic.
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

}  // namespace kv
