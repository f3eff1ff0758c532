// The traffic of step 5: the split kernel and its merge.
#include <algorithm>

#include "attention/traffic.hpp"

namespace kv {
namespace {

constexpr std::int64_t kSectorBytes = 32;
constexpr int kWarpSize = 32;

// The log-sum-exps that the merging CTA of one row reads: in its step n, slice x of the CTA reads
// that of part n * num_slices + x, and a request covers the slices that a warp reaches into.
std::int64_t merge_lse_bytes(const SplitMerge& merge, int head_dim) {
  const int lanes = head_dim / 4;
  const int num_slices = kSplitThreads / lanes;
  std::int64_t sectors = 0;
  for (int begin = 0; begin < merge.num_parts; begin += num_slices)
    for (int warp = 0; warp < kSplitThreads / kWarpSize; ++warp) {
      const int first = begin + warp * kWarpSize / lanes;
      const int last = begin + std::min((warp * kWarpSize + kWarpSize - 1) / lanes, num_slices - 1);
      const int end = std::min(last + 1, merge.num_parts);
      if (first >= end) continue;
      sectors += (std::int64_t{merge.partial} + end - 1) * 4 / kSectorBytes -
                 (std::int64_t{merge.partial} + first) * 4 / kSectorBytes + 1;
    }
  return sectors * kSectorBytes;
}

}  // namespace

AttentionTraffic split_kv_traffic(const AttentionShape& shape,
                                  std::span<const SequenceRows> sequences, bool with_lse,
                                  const SplitPlan& plan) {
  AttentionTraffic bytes;
  const std::int64_t element_bytes = info(shape.kv_dtype).block_bytes;
  const std::int64_t row_bytes = std::int64_t{4} * shape.heads.head_dim;
  for (const SplitItem& item : plan.items) {
    // All warps read q, 16 bytes a lane; in 16 bits a lane owns 32 bytes, so each sector is asked
    // for twice.
    bytes.q += kSplitThreads / kWarpSize * row_bytes * (element_bytes == 2 ? 2 : 1);
    bytes.k += item.num_keys() * element_bytes * shape.heads.head_dim;
    if (item.partial >= 0) bytes.scratch_written += row_bytes + kSectorBytes;
  }
  bytes.v = bytes.k;
  for (const SplitMerge& merge : plan.merges)
    bytes.scratch_read +=
        merge.num_parts * row_bytes + merge_lse_bytes(merge, shape.heads.head_dim);
  for (const SequenceRows& rows : sequences) {
    const std::int64_t num_results = std::int64_t{rows.q_len} * shape.heads.num_q_heads;
    bytes.out += num_results * row_bytes;
    if (with_lse) bytes.lse += num_results * kSectorBytes;  // one float, alone
  }
  return bytes;
}

}  // namespace kv
