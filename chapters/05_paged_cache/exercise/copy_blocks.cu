// Chapter 5, exercise copy_blocks: a kernel that copies ranges of many arrays.
//
// Copy-on-write copies a block in every layer, of K and of V: the same few ranges of many arrays.
// Write the kernel: CTA (x, y) copies range x of array y, its 256 threads one Unit each at a time.
//
// 5 points:
//   2  every range of every array is copied
//   2  each byte is read once and written once
//   1  what lies behind a range stays as it is
//
// Page:  chapters/05_paged_cache/README.md
// Grade: ./kv grade 05_copy_blocks

#include "kv/exercise.hpp"

// Blocks into blocks, for all layers at once: what copy-on-write asks for.
//
// What it shows:  a block that two sequences share is copied before one of them writes to it. That
//                 is 2 * num_layers arrays with the same few ranges: one launch with a table of
//                 arrays, instead of a copy for each array and range.
// Source:         Kwon et al. 2023, section 5.1 (fused block copy).
//
// Only the tokens in use are copied: what lies behind them in the new block stays as it is.
#include "cache/block_kernels.hpp"
#include "kernel.cuh"
#include "kv/check.hpp"

namespace kv::KV_BACKEND {
namespace {

constexpr int kThreads = 256;

// grid (num_ranges, num_arrays), CTA (256); Unit: what one thread moves at a time
template <typename Unit>
__global__ void __launch_bounds__(kThreads)
    copy_blocks_kernel(void* const* arrays, const CopyRange* ranges) {
  KV_TODO();
}

template <typename Unit>
void launch_for(const CopyBlocks& l) {
  const auto kernel = copy_blocks_kernel<Unit>;
  launch(kernel, dim3(static_cast<unsigned>(l.num_ranges), static_cast<unsigned>(l.num_arrays)),
         kThreads, 0, l.stream, l.arrays, l.ranges);
  check_cuda(cudaGetLastError(), "copy_blocks_kernel launch");
}

}  // namespace

void launch_copy_blocks(const CopyBlocks& launch) {
  require(launch.alignment == 16 || launch.alignment == 2, "blocks are aligned to 16 or 2 bytes");
  require(launch.num_arrays <= 65535, "more arrays than a grid is high");
  if (launch.num_ranges == 0 || launch.num_arrays == 0) return;  // a grid may not be empty
  if (launch.alignment == 16) return launch_for<uint4>(launch);
  launch_for<unsigned short>(launch);
}

}  // namespace kv::KV_BACKEND
