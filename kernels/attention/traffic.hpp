// Bytes of global memory that a step of the ladder moves: predicted from the lengths alone, to be
// held against what the checked build counts.
//
// Counted as the emulator counts: whole sectors of 32 bytes for each request of a warp, no caches.
// A row of any head_dim of kHeadDims fills whole sectors, so only single floats (lse, scores) cost
// more than their own bytes. The tables of the host, of sequences, work items and blocks, are left
// out: some 24 bytes that every warp reads, and 4 bytes for each row that a lane looks up.
#pragma once

#include <cstdint>
#include <span>

#include "attention/attention.hpp"
#include "attention/split_plan.hpp"

namespace kv {

namespace emulator {
struct Counters;
}

/// Bytes by array.
struct AttentionTraffic {
  std::int64_t q = 0;                ///< read
  std::int64_t k = 0;                ///< read
  std::int64_t v = 0;                ///< read
  std::int64_t out = 0;              ///< written
  std::int64_t lse = 0;              ///< written
  std::int64_t scratch_written = 0;  ///< scores of step 1, partial results from step 5 on
  std::int64_t scratch_read = 0;     ///< the same

  /// Bytes read.
  std::int64_t loads() const { return q + k + v + scratch_read; }
  /// Bytes written.
  std::int64_t stores() const { return out + lse + scratch_written; }
  /// Both.
  std::int64_t total() const { return loads() + stores(); }
  /// Adds array by array.
  AttentionTraffic& operator+=(const AttentionTraffic& other);
};

/// What any kernel must move: q, every K and V row that some query sees, out, and lse when asked
/// for, each once and in bytes, not sectors.
///
/// \param shape     heads, format and mask
/// \param sequences as given to AttentionPlan
/// \param with_lse  whether lse is written
AttentionTraffic least_traffic(const AttentionShape& shape, std::span<const SequenceRows> sequences,
                               bool with_lse);

/// Step 1: each row reads its K, stores its scores, reads them twice, reads its V.
AttentionTraffic two_pass_traffic(const AttentionShape& shape,
                                  std::span<const SequenceRows> sequences, bool with_lse);
/// Step 2: each row reads its K and V.
AttentionTraffic online_traffic(const AttentionShape& shape,
                                std::span<const SequenceRows> sequences, bool with_lse);
/// Step 3: each block of tiled_rows() query rows reads the K and V that its last row sees.
AttentionTraffic tiled_traffic(const AttentionShape& shape, std::span<const SequenceRows> sequences,
                               bool with_lse);
/// Step 4: the same with blocks of kTensorCoreRows query rows.
AttentionTraffic tensor_core_traffic(const AttentionShape& shape,
                                     std::span<const SequenceRows> sequences, bool with_lse);
/// Step 5: each item reads the K and V of its keys for one query head.
/// \param shape     heads and formats
/// \param sequences lengths of each
/// \param with_lse  whether lse is written
/// \param plan      who reads which keys
AttentionTraffic split_kv_traffic(const AttentionShape& shape,
                                  std::span<const SequenceRows> sequences, bool with_lse,
                                  const SplitPlan& plan);

/// Step 6: each item reads its K and V once for all of its query heads.
/// \param shape     heads and formats
/// \param sequences lengths of each
/// \param with_lse  whether lse is written
/// \param plan      who reads which keys, planned by KV heads
AttentionTraffic grouped_traffic(const AttentionShape& shape,
                                 std::span<const SequenceRows> sequences, bool with_lse,
                                 const SplitPlan& plan);

/// Step 7: step 6 for sequences with one query row, step 3 for those with several. Blocks change
/// nothing: rows are read whole, wherever they lie.
/// \param shape     heads and formats
/// \param sequences lengths of each
/// \param with_lse  whether lse is written
/// \param plan      who reads which keys of the sequences with one query row
AttentionTraffic paged_traffic(const AttentionShape& shape, std::span<const SequenceRows> sequences,
                               bool with_lse, const SplitPlan& plan);

/// The function of a step.
/// \param step      which kernel
/// \param shape     heads and formats
/// \param sequences lengths of each
/// \param with_lse  whether lse is written
/// \param plan      used from step 5 on
AttentionTraffic predicted_traffic(AttentionStep step, const AttentionShape& shape,
                                   std::span<const SequenceRows> sequences, bool with_lse,
                                   const SplitPlan& plan = {});

/// What was counted, without the reads of the host's tables: equal to the predicted total().
std::int64_t counted_bytes(const emulator::Counters& counters);

}  // namespace kv
