// Rows of 16-byte chunks in shared memory, placed so that a column of them can be read at once.
//
// Source: PTX ISA, "ldmatrix".
#pragma once

#include "kernel.cuh"

namespace kv::KV_BACKEND {

//! [swizzle]
/// Shared memory serves 128 bytes a pass: 8 chunks of 16 bytes, if they lie in 8 different columns
/// of banks. ldmatrix reads one chunk of each of 8 rows, and a row of 128 bytes would put all 8
/// into one column. So row j keeps chunk c at place c ^ swizzle(j). Rows of an odd number of chunks
/// would need no such thing; rows of 2 (4) times an odd number begin in 4 (2) columns, and only the
/// lowest 1 (2) bits of c must change to tell 8 rows apart.
template <int kChunksInRow>
struct SwizzledRows {
  static constexpr int kChunks = kChunksInRow;  ///< of 16 bytes in a row
  /// Places that a chunk may have: chunks c and c + kPlaces are swizzled alike.
  static constexpr int kPlaces = kChunks % 8 == 0 ? 8 : kChunks % 4 == 0 ? 4 : 2;

  /// What is turned over in the number of every chunk of a row.
  static __device__ int swizzle(int row) { return row / (8 / kPlaces) % kPlaces; }

  /// Where chunk c of a row lies in an array of rows.
  static __device__ int index(int row, int c) { return row * kChunks + (c ^ swizzle(row)); }

  /// The same for chunk c + low from low_index = index(row, low), with low 0 or 1 and an even
  /// constant c: all that depends on the lane is in one number, and the rest is an exclusive or
  /// with a constant.
  static __device__ int index_from(int low_index, int c) {
    return (low_index ^ c % kPlaces) + c / kPlaces * kPlaces;
  }
};
//! [swizzle]

}  // namespace kv::KV_BACKEND
