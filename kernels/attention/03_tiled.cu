// Attention tile by tile: a block of query rows against a tile of keys at a time.
//
// What it shows:  every key that a CTA brings to shared memory serves 64 query rows, so K and V
//                 cross global memory once for each block of rows, not once for each row. Scores
//                 live in registers, and what of them crosses threads crosses in shared memory.
// Source:         Dao et al. 2022 (FlashAttention), algorithm 1, with the loops as in Dao 2023
//                 (FlashAttention-2), algorithm 1: rows outside, keys inside, one division at the
//                 end. All arithmetic is fp32 on CUDA cores.
// Next kernel:    04_tensor_core.cu multiplies the same tiles on tensor cores and copies the next
//                 tile while it works on this one.
#include "attention/tiled_kernel.cuh"

namespace kv::KV_BACKEND {

void launch_tiled(const AttentionLaunch& launch) {
  launch_tiled_kernel<AttentionArrays>(launch,
                                       [&](auto type) { return arrays<decltype(type)>(launch); });
}

}  // namespace kv::KV_BACKEND
