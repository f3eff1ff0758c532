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
//! [copy blocks]
template <typename Unit>
__global__ void __launch_bounds__(kThreads)
    copy_blocks_kernel(void* const* arrays, const CopyRange* ranges) {
  const CopyRange range = ranges[blockIdx.x];
  unsigned char* const array = static_cast<unsigned char*>(arrays[blockIdx.y]);
  const Unit* const from = reinterpret_cast<const Unit*>(array + range.from);
  Unit* const to = reinterpret_cast<Unit*>(array + range.to);
  const std::int64_t num_units = range.num_bytes / static_cast<std::int64_t>(sizeof(Unit));
  for (std::int64_t i = threadIdx.x; i < num_units; i += kThreads) to[i] = from[i];
}
//! [copy blocks]

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
