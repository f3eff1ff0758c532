// The traffic of the steps that split keys: step 5, step 6, and the merge of both.
#include <algorithm>

#include "attention/tile_shape.hpp"
#include "attention/traffic.hpp"

namespace kv {
namespace {

constexpr std::int64_t kSectorBytes = 32;
constexpr int kWarpSize = 32;

// Sectors of the floats first, first + stride, ... of which there are count.
std::int64_t count_sectors(std::int64_t first, int count, int stride) {
  std::int64_t sectors = 0, last = -1;
  for (int i = 0; i < count; ++i) {
    const std::int64_t sector = (first + std::int64_t{i} * stride) * 4 / kSectorBytes;
    sectors += sector != last;
    last = sector;
  }
  return sectors;
}

// The log-sum-exps that the merging CTA of one row and head i of its item reads: in its step n,
// slice x of the CTA reads that of part n * num_slices + x, and a request covers the slices that a
// warp reaches into.
std::int64_t merge_lse_bytes(const SplitMerge& merge, int head_dim, int heads_per_item, int i) {
  const int lanes = head_dim / 4;
  const int num_slices = kSplitThreads / lanes;
  std::int64_t sectors = 0;
  for (int begin = 0; begin < merge.num_parts; begin += num_slices)
    for (int warp = 0; warp < kSplitThreads / kWarpSize; ++warp) {
      const int first = begin + warp * kWarpSize / lanes;
      const int last = begin + std::min((warp * kWarpSize + kWarpSize - 1) / lanes, num_slices - 1);
      const int end = std::min(last + 1, merge.num_parts);
      if (first >= end) continue;
      sectors += count_sectors((std::int64_t{merge.partial} + first) * heads_per_item + i,
                               end - first, heads_per_item);
    }
  return sectors * kSectorBytes;
}

// What the merge of all rows reads.
std::int64_t merge_bytes(const SplitPlan& plan, int head_dim, int heads_per_item) {
  std::int64_t bytes = 0;
  for (const SplitMerge& merge : plan.merges)
    for (int i = 0; i < heads_per_item; ++i)
      bytes += std::int64_t{merge.num_parts} * 4 * head_dim +
               merge_lse_bytes(merge, head_dim, heads_per_item, i);
  return bytes;
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
  bytes.scratch_read = merge_bytes(plan, shape.heads.head_dim, 1);
  for (const SequenceRows& rows : sequences) {
    const std::int64_t num_results = std::int64_t{rows.q_len} * shape.heads.num_q_heads;
    bytes.out += num_results * row_bytes;
    if (with_lse) bytes.lse += num_results * kSectorBytes;  // one float, alone
  }
  return bytes;
}

AttentionTraffic grouped_traffic(const AttentionShape& shape,
                                 std::span<const SequenceRows> sequences, bool with_lse,
                                 const SplitPlan& plan) {
  AttentionTraffic bytes;
  const int head_dim = shape.heads.head_dim;
  const int num_heads = grouped_heads(shape.heads.group_size(), head_dim);  // of an item
  const std::int64_t element_bytes = info(shape.kv_dtype).block_bytes;
  const std::int64_t result_bytes = std::int64_t{4} * head_dim * num_heads;
  for (const SplitItem& item : plan.items) {
    // 16 bytes a lane and load; in 16 bits a lane has two loads, 32 bytes apart.
    bytes.q += result_bytes * (element_bytes == 2 ? 2 : 1);
    bytes.k += item.num_keys() * element_bytes * head_dim;  // once for all heads
    // The heads' log-sum-exps lie side by side, wherever in a sector they begin.
    if (item.partial >= 0) {
      const std::int64_t first = std::int64_t{item.partial} * num_heads;
      bytes.scratch_written += result_bytes + kSectorBytes * count_sectors(first, num_heads, 1);
    } else {
      const SequenceRows& rows = sequences[static_cast<std::size_t>(item.sequence)];
      const std::int64_t first =
          (rows.q_begin + item.row) * shape.heads.num_q_heads + item.head * num_heads;
      bytes.out += result_bytes;
      if (with_lse) bytes.lse += kSectorBytes * count_sectors(first, num_heads, 1);
    }
  }
  bytes.v = bytes.k;
  bytes.scratch_read = merge_bytes(plan, head_dim, num_heads);
  const auto num_merges = static_cast<std::int64_t>(plan.merges.size());
  bytes.out += num_merges * result_bytes;
  if (with_lse) bytes.lse += num_merges * num_heads * kSectorBytes;  // one float, alone
  return bytes;
}

}  // namespace kv
