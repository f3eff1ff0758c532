// How the keys of decode are shared out over CTAs: the host's part of split-KV.
//
// A query row of one head is a chain of keys. Whole chains rarely fill a machine: one sequence of
// 8 heads is 8 chains on 132 multiprocessors. So the planner cuts chains into parts, one CTA each;
// each part gives a partial result, and a second kernel merges those of one chain. The planner also
// settles what a row may see (the causal limit): the kernels behind it know no mask.
//
// "Head" is the head that the kernel's work goes by: a query head in step 5. A kernel that shares
// the reads of a group plans by KV heads; then each part gives one result per head of the group.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "device_buffer.hpp"

namespace kv {

struct SequenceRows;

/// CTAs of a splitting kernel that a multiprocessor runs at once, at least: while one starts or
/// finishes, the other reads.
inline constexpr int kSlotsPerMultiprocessor = 2;

/// Threads of a CTA of step 5 and of the merge: for the kernels, and for who predicts their
/// traffic. With two slots that makes 512 of a multiprocessor, each with 128 bytes of loads under
/// way: 64 KiB. An H200 needs about 30 (4.8 TB/s over 132 of them, times 800 ns).
inline constexpr int kSplitThreads = 256;

/// What the planner may be told.
struct SplitOptions {
  int num_slots =
      0;  ///< CTAs that run at once; 0: kSlotsPerMultiprocessor times those of the device
  /// Keys of a part; 0: chosen to fill the slots. When set, a sequence is cut at multiples of it
  /// whatever else is in the batch, so its bits do not depend on the batch.
  int fixed_chunk = 0;
};

/// One CTA's work: keys [begin, end) for one query row and head of one sequence.
struct SplitItem {
  int sequence = 0;  ///< index in the batch
  int row = 0;       ///< query row of the sequence
  int head = 0;      ///< query head, or KV head where a group is read together
  int begin = 0;     ///< first key
  int end = 0;       ///< equal to begin only where the row sees no key at all
  int partial = -1;  ///< where its result goes among the partial ones; -1: straight to the output

  /// Keys of the item.
  int num_keys() const { return end - begin; }
};

/// The parts of one query row and head that are to be merged, in the order of their keys.
struct SplitMerge {
  int sequence = 0;   ///< index in the batch
  int row = 0;        ///< query row of the sequence
  int head = 0;       ///< as SplitItem::head
  int partial = 0;    ///< of the first part; the others follow
  int num_parts = 0;  ///< at least 2
};

/// The plan of a batch.
struct SplitPlan {
  std::vector<SplitItem> items;    ///< the longest first: what starts last should be short
  std::vector<SplitMerge> merges;  ///< rows that were split
  int num_partials = 0;            ///< partial results in all

  /// Share of the slots' time that is work, when each slot takes the next item as soon as it is
  /// free and time goes by keys. For equal items: keys / (waves * slots * keys of an item).
  double busy_share(int num_slots) const;
};

/// Least keys of a part (the last of a row may lack some of a granule), unless fixed_chunk says
/// otherwise. A part costs a start (three dependent
/// reads before the first key), the combination of its threads, and a partial result that is
/// written and read again: about as long as 64 keys. At 256 keys that is a quarter; below, more
/// CTAs no longer pay, and a published kernel lost 47 % of its time to such splits.
inline constexpr int kLeastChunk = 256;

/// Parts begin at multiples of this: the rows of a load then start where a block of a paged cache
/// does, and equal parts still differ by no more than a sixteenth of the least chunk.
inline constexpr int kChunkGranule = 16;

/// Shares out the keys of every query row and head.
///
/// \param num_heads heads to plan by: query heads, or KV heads where a group is read together
/// \param causal    whether query row t sees only its visible_keys()
/// \param sequences who has how many query rows and keys
/// \param options   num_slots must be positive, fixed_chunk at least 0
/// \throws std::invalid_argument on bad options, or for more than 2^31 - 1 items
SplitPlan plan_split(int num_heads, bool causal, std::span<const SequenceRows> sequences,
                     const SplitOptions& options);

/// A plan on the device, as the kernels see it.
struct SplitArrays {
  const SplitItem* items = nullptr;    ///< [num_items]
  const SplitMerge* merges = nullptr;  ///< [num_merges]
  float* out = nullptr;    ///< [num_partials, heads_per_item, head_dim], each part by itself
  float* lse = nullptr;    ///< [num_partials, heads_per_item], natural log
  int num_items = 0;       ///< as many CTAs
  int num_merges = 0;      ///< query rows and heads that are merged afterwards
  int heads_per_item = 1;  ///< query heads that an item computes
};

/// Owns what SplitArrays points to.
struct SplitBuffers {
  SplitBuffers() = default;
  /// \param device         owns the memory; must outlive this
  /// \param plan           its items are copied to the device
  /// \param head_dim       elements of a partial result
  /// \param heads_per_item 1, or the group size where the plan is by KV heads
  SplitBuffers(Device& device, const SplitPlan& plan, int head_dim, int heads_per_item = 1);
  /// The pointers; valid as long as this lives.
  SplitArrays arrays();

  DeviceBuffer<SplitItem> items;    ///< as SplitArrays::items
  DeviceBuffer<SplitMerge> merges;  ///< as SplitArrays::merges
  DeviceBuffer<float> out;          ///< as SplitArrays::out
  DeviceBuffer<float> lse;          ///< as SplitArrays::lse
  int heads_per_item = 1;           ///< as given
};

}  // namespace kv
