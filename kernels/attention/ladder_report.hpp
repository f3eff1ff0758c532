// The ladder walked once: what each step moves through memory, counted in the checking emulator.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <vector>

#include "attention/attention.hpp"
#include "kv/report/options.hpp"

namespace kv {

/// One step on one problem. Bytes and requests are those of all its kernels together.
struct LadderRow {
  AttentionStep step = AttentionStep::two_pass;  ///< which kernel
  DType kv_dtype = DType::f32;                   ///< of K and V
  int q_len = 0;                                 ///< query rows, the last of kv_len tokens
  int kv_len = 0;                                ///< keys
  std::int64_t bytes_moved = 0;                  ///< through global memory, as traffic.hpp counts
  std::int64_t bytes_predicted = 0;              ///< the same by the closed form of the step
  std::int64_t bytes_needed = 0;                 ///< q, K, V and out, each once
  std::int64_t scratch_bytes = 0;                ///< stored beside out: scores, or partial results
  std::int64_t flops = 0;                        ///< q.k and p.v of the keys that are seen
  double sectors_per_load = 0.0;                 ///< of 32 bytes, for each load request of a warp
  double best_sectors = 0.0;                     ///< that the same bytes need at best
  std::int64_t bank_conflicts = 0;               ///< extra passes over the banks of shared memory

  /// Operations a byte of global memory.
  double intensity() const { return static_cast<double>(flops) / static_cast<double>(bytes_moved); }
};

/// Runs a step on one sequence of random numbers in the checking emulator. What splits keys
/// splits them as for an H100.
///
/// \param step   which kernel
/// \param shape  heads and format; scale and mask as given
/// \param q_len  query rows, at least 1
/// \param kv_len keys, at least q_len
/// \throws InputError when there is no kernel for the shape; std::runtime_error when the emulator
///         finds a fault in it
LadderRow measure_step(AttentionStep step, const AttentionShape& shape, int q_len, int kv_len);

/// Tokens of the walk's prefill: enough that a tile is full, few enough for the emulator.
inline constexpr int kPrefillRows = 64;
/// Keys of the walk's decode: enough that split_kv has something to split.
inline constexpr int kDecodeKeys = 1024;

/// Every step that the ladder has: a causal prefill of kPrefillRows tokens by steps 1 to 4, and one
/// new token over kDecodeKeys keys from step 5 on. Step 4 runs in bf16 when the format is fp32.
///
/// \param heads the model's heads
/// \param dtype format of K and V
/// \param step  only this one; 0: all
/// \throws as measure_step()
std::vector<LadderRow> walk_ladder(const HeadConfig& heads, DType dtype, int step = 0);

/// Walks the ladder and prints it as a table; where --svg asks for it, draws the bytes of each step
/// next to those that must move, and below that the roofline of an H100 with the steps on it.
///
/// \param heads   the model's heads; without kernels for them a line says so
/// \param options --kv-dtype and --svg are read
/// \param step    as for walk_ladder()
/// \param out     receives the table
/// \throws InputError when --svg asks for a ladder that there is not; std::runtime_error, after
///         printing, when a count differs from its closed form
void show_ladder(const HeadConfig& heads, const ChapterOptions& options, int step,
                 std::ostream& out);

}  // namespace kv
