// The host entries of the kernels that the emulator is tested with.
//
// Each is a table, one per build, so that a test runs the same thing fast and checked.
#pragma once

#include <cstddef>

#include "device.hpp"

/// What the kernels of the tests need: device pointers of the right sizes.
struct CorrectKernels {
  /// out[cta] = sum of in[cta * 256 .. + 256), by shared memory and barriers.
  void (*sum_by_tree)(const float* in, float* out, int num_ctas);
  /// The same by shuffles; all lengths up to 1024.
  void (*sum_by_shuffle)(const float* in, float* out, int count);
  /// out [columns, rows] = in [rows, columns] transposed, through a tile; `padding` 0 or 1 columns.
  void (*transpose)(const float* in, float* out, int rows, int columns, int padding);
  /// out[i] = 2 * in[i] through two stages of asynchronous copies. count: a multiple of 512.
  void (*double_buffered)(const float* in, float* out, int count);
  /// d [16, 8] += a [16, 16] b [16, 8]; the bits of bf16 or f16, all row-major.
  void (*multiply)(const unsigned short* a, const unsigned short* b, float* d, bool is_bf16);
  /// out[lane * 8 + 0..3] = ldmatrix_x4, + 4..7 = ldmatrix_x4_trans of in [32, 8].
  void (*load_matrices)(const unsigned short* in, unsigned* out);
  /// bins[v] += 1 for each value, in shared memory and then in global memory.
  void (*histogram)(const int* values, int* bins, int count, int num_bins);
  /// All shuffles and votes of one warp; out [32, 8].
  void (*exchange)(int* out);
  /// out[thread] = {count, and, or} of the predicate thread < limit.
  void (*barrier_votes)(int* out, int num_threads, int limit);
  /// out[i] = in[i] four at a time, by 16-byte loads with a stride of `stride` vectors.
  void (*copy_vectors)(const float* in, float* out, int count, int stride);
  /// Lanes hand values to each other through shared memory, ordered by __syncwarp only.
  void (*warp_exchange)(float* out);
  /// A lock by compare-and-swap that threads of different warps take in turn.
  void (*locked_count)(int* lock, int* counter);
};

/// Kernels with one planted bug each; `out` has 1024 floats.
struct FaultyKernels {
  void (*missing_barrier)(float* out);
  void (*missing_barrier_of_vectors)(float* out);
  void (*missing_barrier_before_overwrite)(float* out);
  void (*missing_warp_sync)(float* out);
  void (*write_write)(float* out);
  void (*atomic_and_plain)(float* out);
  void (*byte_race)(float* out);
  void (*never_written)(float* out);
  void (*read_before_add)(float* out);
  void (*out_of_shared_array)(float* out, int index);
  void (*out_of_shared_pointer)(float* out);
  void (*past_requested_bytes)(float* out);
  void (*global_offset)(float* out, long offset);
  void (*global_any)(const float* in, float* out);
  void (*misaligned_global)(float* out);
  void (*misaligned_shared)(float* out);
  void (*copy_not_waited)(const float* in, float* out);
  void (*copy_waited_one_short)(const float* in, float* out);
  void (*copy_without_barrier)(const float* in, float* out);
  void (*copy_into_used_tile)(const float* in, float* out);
  void (*barrier_in_branch)(float* out);
  void (*two_barriers)(float* out);
  void (*early_return)(float* out);
  void (*lane_not_in_mask)(float* out);
  void (*shuffle_from_outside)(float* out);
  void (*different_operations)(float* out);
  void (*different_masks)(float* out);
  void (*barrier_against_shuffle)(float* out);
  void (*matrix_in_part_of_warp)(float* out);
  void (*spin)(float* out);
  void (*spin_on_atomic)(int* flag);
  void (*local_of_another)(float* out);
  void (*too_much_shared)(std::size_t bytes, bool allowed);
  void (*too_many_threads)(unsigned threads);
  void (*launch_twice_unchecked)();
};

namespace kv::emulated {
const CorrectKernels& correct_kernels();
const FaultyKernels& faulty_kernels();
}  // namespace kv::emulated
namespace kv::checked {
const CorrectKernels& correct_kernels();
const FaultyKernels& faulty_kernels();
}  // namespace kv::checked
namespace kv::gpu {
const CorrectKernels& correct_kernels();
}  // namespace kv::gpu
