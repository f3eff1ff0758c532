// Tiles of K and V in shared memory for tensor cores, and the queries beside them: where every
// thread writes what it copies and reads what it multiplies.
#pragma once

#include "attention/fragments.cuh"
#include "attention/tile_shape.hpp"
#include "kernel.cuh"

namespace kv::KV_BACKEND {

inline constexpr int kTensorCoreThreads =
    128;  ///< a CTA: four warps with the 16 rows of an mma each

/// One tile of keys or values, and the three that a CTA holds.
template <int kHeadDim>
struct Tiles : SwizzledRows<kHeadDim / kChunk> {
  static constexpr int kKeys = tensor_core_keys(kHeadDim);  ///< of a tile
  using Tile = uint4[kKeys * kHeadDim / kChunk];            ///< see SwizzledRows::index()

  Tile k[2];  ///< the keys in use, and the next
  Tile v;     ///< the values of the keys in use
};

/// Where a thread reads and writes in every tile. Made once, before the loop.
template <int kHeadDim>
struct Lane {
  int k;            ///< named to ldmatrix: rows 0-7 | 0-7 | 8-15 | 8-15, chunks 0 | 1 | 0 | 1
  int v;            ///< transposed:        rows 0-7 | 8-15 | 0-7 | 8-15, chunks 0 | 0 | 1 | 1
  int copy;         ///< the first chunk that it copies, in the tile
  unsigned source;  ///< the same in global memory, in elements from row 0 of the tile

  /// Of the thread that asks.
  /// \param stride elements between two rows in global memory
  __device__ static Lane make(unsigned stride) {
    using Tiles = Tiles<kHeadDim>;
    const int lane = threadIdx.x % 32;
    const int row = threadIdx.x / Tiles::kPlaces;
    const int chunk = threadIdx.x % Tiles::kPlaces;
    return {Tiles::index(lane % 8 + lane / 16 * 8, lane / 8 % 2),
            Tiles::index(lane % 16, lane / 16), Tiles::index(row, chunk),
            row * stride + chunk * kChunk};
  }
};

/// The warp's 16 query rows as operands a: a thread's part of one is 4 registers for 16 elements of
/// the head. What would not fit into 255 registers is parked in shared memory, each thread's where
/// no other thread looks: no barrier is needed.
template <int kHeadDim>
struct Queries {
  static constexpr int kSteps = kHeadDim / 16;                  ///< operands
  static constexpr int kParked = tensor_core_parked(kHeadDim);  ///< of them in shared memory
  unsigned held[kSteps - kParked][4];                           ///< the others

  /// In shared memory, behind the tiles: [kParked][kTensorCoreThreads].
  static __device__ uint4* parked() {
    return reinterpret_cast<uint4*>(dynamic_shared<Tiles<kHeadDim>>() + 1) + threadIdx.x;
  }
  /// Keeps a, the operand for the elements 16 d to 16 d + 15.
  __device__ void set(int d, const unsigned (&a)[4]) {
    if (d < kParked) {
      parked()[d * kTensorCoreThreads] = make_uint4(a[0], a[1], a[2], a[3]);
    } else {
      for (int i = 0; i < 4; ++i) held[d - kParked][i] = a[i];
    }
  }
  /// Gives a, the operand for the elements 16 d to 16 d + 15, back.
  __device__ void get(int d, unsigned (&a)[4]) const {
    if (d < kParked) {
      const uint4 x = parked()[d * kTensorCoreThreads];
      a[0] = x.x, a[1] = x.y, a[2] = x.z, a[3] = x.w;
    } else {
      for (int i = 0; i < 4; ++i) a[i] = held[d - kParked][i];
    }
  }
};

/// Dynamic shared memory of a CTA: three tiles, and what of q is parked there.
template <int kHeadDim>
constexpr std::size_t kSharedBytes = sizeof(Tiles<kHeadDim>) +
                                     sizeof(uint4) * kTensorCoreThreads* Queries<kHeadDim>::kParked;

/// Starts the copy of a tile. Each thread moves one chunk of every kPlaces, in rows that are a
/// multiple of 8 apart: its place in the swizzled row is the same in all.
///
/// \param tile     in shared memory; filled once the copies have been waited for
/// \param source   row 0 of the tile in global memory
/// \param lane     the thread's chunk and rows
/// \param stride   elements between two rows
/// \param num_rows rows that exist (kGuarded; at least 1); the others become zeros
template <bool kGuarded, int kHeadDim, typename T>
__device__ inline void copy_tile(typename Tiles<kHeadDim>::Tile& tile, const T* source,
                                 const Lane<kHeadDim>& lane, unsigned stride, int num_rows = 0) {
  using Tiles = Tiles<kHeadDim>;
  constexpr int kStep = kTensorCoreThreads / Tiles::kPlaces;
  static_assert(kStep % 8 == 0 && Tiles::kKeys % kStep == 0);
  const int row = threadIdx.x / Tiles::kPlaces;
  for (int i = 0; i < Tiles::kKeys; i += kStep) {
    const bool exists = !kGuarded || row + i < num_rows;
    const T* from = source + (exists ? lane.source + i * stride : 0u);  // 32 bits inside a tile
    for (int c = 0; c < Tiles::kChunks; c += Tiles::kPlaces)
      cp_async_16(&tile[lane.copy + i * Tiles::kChunks + c], from + c * kChunk, exists ? 16 : 0);
  }
}

}  // namespace kv::KV_BACKEND
