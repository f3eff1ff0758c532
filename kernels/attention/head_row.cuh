// One row of one head, spread over the lanes of a warp: lane i holds elements i, i + 32, ... Each
// load of the warp reads 32 neighbours. For steps 1 and 2; later steps load 16 bytes a lane.
#pragma once

#include "kernel.cuh"
#include "reduce.cuh"

namespace kv::KV_BACKEND {

/// A lane's share of a row; what lies past the end of the head is 0.
template <int kHeadDim>
struct HeadRow {
  /// Elements of one lane.
  static constexpr int kElements = (kHeadDim + 31) / 32;
  float x[kElements] = {};  ///< element i * 32 + lane of the head is x[i]
};

/// Calls body(i, d) for each element of the calling lane: x[i] is element d of the head.
template <int kHeadDim, typename Body>
__device__ void for_each_element(const Body& body) {
  for (int i = 0; i < HeadRow<kHeadDim>::kElements; ++i) {
    const int d = i * 32 + static_cast<int>(threadIdx.x % 32);
    if (kHeadDim % 32 == 0 || d < kHeadDim) body(i, d);
  }
}

/// A row of global memory, [head_dim], widened; all 32 lanes together.
template <int kHeadDim, typename T>
__device__ HeadRow<kHeadDim> load_head_row(const T* row) {
  HeadRow<kHeadDim> result;
  for_each_element<kHeadDim>([&](int i, int d) { result.x[i] = widen(row[d]); });
  return result;
}

/// The product of two rows, in every lane.
template <int kHeadDim>
__device__ float dot(const HeadRow<kHeadDim>& a, const HeadRow<kHeadDim>& b) {
  float sum = 0.0f;
  for (int i = 0; i < HeadRow<kHeadDim>::kElements; ++i) sum += a.x[i] * b.x[i];
  return warp_sum(sum);
}

/// sum = sum * rescale + weight * row
template <int kHeadDim>
__device__ void accumulate(HeadRow<kHeadDim>& sum, float rescale, float weight,
                           const HeadRow<kHeadDim>& row) {
  for (int i = 0; i < HeadRow<kHeadDim>::kElements; ++i)
    sum.x[i] = sum.x[i] * rescale + weight * row.x[i];
}

}  // namespace kv::KV_BACKEND
