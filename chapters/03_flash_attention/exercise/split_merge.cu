// Chapter 3, exercise split_merge: the parts of a split row are merged.
//
// Decode splits the keys of one row over CTAs. Each part is attention over its own keys, finished:
// out, divided by its sum, and lse, the natural log of that sum. Write what puts them together.
//
// combine(m, l, acc, d): element d of the output of kStates unfinished softmax states in shared
// memory, and the row's lse. States without keys, (-inf, 0), are neutral; nothing but those give 0
// and -inf. The kernel that computes the parts uses it for its warps.
//
// merge_kernel: a CTA for entry blockIdx.x / heads_per_item of split.merges and head i =
// blockIdx.x % heads_per_item of it. Its parts are merge.num_parts rows of split.out and split.lse
// from merge.partial on: [num_partials, heads_per_item, head_dim] and [num_partials,
// heads_per_item]. MergeLanes says how its 256 threads lie on them: a slice of kPerPart threads, 4
// elements each, takes the parts x, x + kSlices, ... with OnlineSoftmax; then the slices' states
// are combined. Any number of parts may be empty (lse -inf, out 0), also the first. The result
// goes to row merge.row of sequence merge.sequence, query head merge.head * heads_per_item + i;
// lse may be null. Read the tables with plan_entry(table, i).
//
// 11 points:
//   3  parts are merged by their log-sum-exps
//   1  a part without keys changes nothing
//   1  of nothing but empty parts come 0 and -inf
//   1  log-sum-exps of any size are merged: near -500 and near 500
//   2  each part is read once
//   1  no race, whatever the order of the threads
//   2  decode in parts is attention
//
// Page:  chapters/03_flash_attention/README.md#the-mechanism
// Grade: ./kv grade 03_split_merge

#include "kv/exercise.hpp"

// Decode attention over split keys: one CTA takes a part of the keys of one query row and head.
//
// What it shows:  one new token has one query row, so there is nothing to share in a tile, and each
//                 byte of K and V is used once: time is the time to read them. All processors must
//                 read, wide, and with many loads under way. So the keys themselves are shared out,
//                 and the parts are put together by their log-sum-exp in a second kernel.
// Source:         Dao et al. 2023, "Flash-Decoding for long-context inference" (split and merge);
//                 Milakov & Gimelshein 2018, section 3.1 (merging parts).
// Next kernel:    here each query head reads its KV head by itself, also when others read the same;
//                 06_grouped reads it once for the whole group.

#include "attention/arrays.cuh"
#include "kv/attention/online_softmax.hpp"

namespace kv::KV_BACKEND {
namespace {

constexpr int kWarpSize = 32;
constexpr int kThreads = kSplitThreads;
constexpr int kWarps = kThreads / kWarpSize;
constexpr int kLoadBytes = 16;     // the widest load of a thread
constexpr int kLoadsUnderWay = 4;  // of K and as many of V, per thread and step
constexpr float kLog2e = 1.44269504f;
constexpr float kLn2 = 0.693147181f;

constexpr int largest_power_of_two_in(int x) { return x & -x; }

// How the lanes of a warp lie on rows of K and V. Rows of 256 bytes: 16 lanes with 16 bytes each,
// two rows a warp. A row of 160 bytes is 10 loads: 2 lanes with 5 each, so that no lane is idle.
template <typename T, int kHeadDim>
struct Lanes {
  static constexpr int kElements = kLoadBytes / sizeof(T);  // of a load
  static constexpr int kRowLoads = kHeadDim / kElements;
  static constexpr int kPerRow = largest_power_of_two_in(kRowLoads) < kWarpSize
                                     ? largest_power_of_two_in(kRowLoads)
                                     : kWarpSize;     // lanes: a lane group
  static constexpr int kLoads = kRowLoads / kPerRow;  // of a lane and row
  static constexpr int kOwned = kLoads * kElements;   // elements of a row that a lane owns
  static constexpr int kRows = (kLoadsUnderWay + kLoads - 1) / kLoads;  // of a lane group and step
  static constexpr int kGroups = kThreads / kPerRow;                    // lane groups of the CTA
  static constexpr int kStep = kGroups * kRows;                         // keys of the CTA and step

  /// The element of the head that is the lane's number i.
  static __device__ int element(int lane, int i) {
    return (i / kElements * kPerRow + lane) * kElements + i % kElements;
  }
};

// The elements of one load. Exact.
__device__ inline void widen_all(const uint4& from, float (&to)[4], float) {
  const unsigned words[4] = {from.x, from.y, from.z, from.w};
  for (int i = 0; i < 4; ++i) to[i] = __uint_as_float(words[i]);
}
template <typename T>
__device__ inline void widen_all(const uint4& from, float (&to)[8], T) {
  const unsigned words[4] = {from.x, from.y, from.z, from.w};
  for (int i = 0; i < 4; ++i) {
    const float2 pair = unpack<T>(words[i]);
    to[2 * i] = pair.x;
    to[2 * i + 1] = pair.y;
  }
}

// The softmax so far of the keys of one lane group. Scores come in units of log2(e): exp2 serves.
template <int kOwned>
struct GroupState {
  float m = -INFINITY;
  float l = 0.0f;
  float acc[kOwned] = {};  // the lane's share of sum_j exp2(s_j - m) v_j
};

// All counts of loops are constants: the compiler unrolls them and keeps the arrays in registers.
//
// One step: kRows keys, kGroups apart, of each lane group. With kFull all of them exist, else only
// those before the end of the item, num_left keys after the group's first; what does not exist is
// neither read nor counted.
template <bool kFull, typename T, int kHeadDim>
__device__ __forceinline__ void take_step(GroupState<Lanes<T, kHeadDim>::kOwned>& state,
                                          const float (&q)[Lanes<T, kHeadDim>::kOwned],
                                          const uint4* k, const uint4* v, std::int64_t row_stride,
                                          int num_left) {
  using L = Lanes<T, kHeadDim>;
  uint4 k_loads[L::kRows][L::kLoads], v_loads[L::kRows][L::kLoads];

  // All loads of the step first: none waits for another.
  for (int r = 0; r < L::kRows; ++r)
    for (int i = 0; i < L::kLoads; ++i) {
      const std::int64_t at = r * row_stride + i * L::kPerRow;
      const bool exists = kFull || r * L::kGroups < num_left;
      k_loads[r][i] = exists ? __ldg(k + at) : make_uint4(0, 0, 0, 0);  // K
      v_loads[r][i] = exists ? __ldg(v + at) : make_uint4(0, 0, 0, 0);  // V
    }

  // s_j = scale * log2(e) * sum_d q[d] * k[j, d]; the factors are in q
  float s[L::kRows];
  for (int r = 0; r < L::kRows; ++r) {
    s[r] = 0.0f;
    for (int i = 0; i < L::kLoads; ++i) {
      float k_values[L::kElements];
      widen_all(k_loads[r][i], k_values, T{});
      for (int e = 0; e < L::kElements; ++e) s[r] += q[i * L::kElements + e] * k_values[e];
    }
    for (int offset = L::kPerRow / 2; offset > 0; offset /= 2)
      s[r] += __shfl_xor_sync(0xffffffffu, s[r], offset);
    if (!kFull && r * L::kGroups >= num_left) s[r] = -INFINITY;
  }

  // One rescale for all keys of the step. Only inside the exponents -inf counts as 0: a group that
  // has seen no key stays at -inf.
  float m_new = state.m;
  for (int r = 0; r < L::kRows; ++r) m_new = fmaxf(m_new, s[r]);
  const float m_finite = m_new == -INFINITY ? 0.0f : m_new;
  const float rescale = exp2_approx(state.m - m_finite);
  state.m = m_new;
  state.l *= rescale;
  for (int i = 0; i < L::kOwned; ++i) state.acc[i] *= rescale;

  // acc += exp2(s_j - m) * v_j
  for (int r = 0; r < L::kRows; ++r) {
    const float p = exp2_approx(s[r] - m_finite);
    state.l += p;
    for (int i = 0; i < L::kLoads; ++i) {
      float v_values[L::kElements];
      widen_all(v_loads[r][i], v_values, T{});
      for (int e = 0; e < L::kElements; ++e) state.acc[i * L::kElements + e] += p * v_values[e];
    }
  }
}

// The lane groups of a warp become one: afterwards every group holds the state of the warp.
template <int kPerRow, int kOwned>
__device__ inline void combine_warp(GroupState<kOwned>& state) {
  float m = state.m;
  for (int offset = kPerRow; offset < kWarpSize; offset *= 2)
    m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, offset));
  const float rescale = exp2_approx(state.m - (m == -INFINITY ? 0.0f : m));
  state.m = m;
  state.l *= rescale;
  for (int i = 0; i < kOwned; ++i) state.acc[i] *= rescale;
  for (int offset = kPerRow; offset < kWarpSize; offset *= 2) {
    state.l += __shfl_xor_sync(0xffffffffu, state.l, offset);
    for (int i = 0; i < kOwned; ++i)
      state.acc[i] += __shfl_xor_sync(0xffffffffu, state.acc[i], offset);
  }
}

// One element of attention, and its log-sum-exp.
struct Combined {
  float out;
  float lse;
};

// Element d of softmax states in shared memory, of the warps of a CTA or of the parts of a row; m
// in natural units. States without keys, (-inf, 0), are neutral; of nothing but those come 0 and
// -inf.
template <int kStates, int kHeadDim>
__device__ inline Combined combine(const float (&m)[kStates], const float (&l)[kStates],
                                   const float (&acc)[kStates][kHeadDim], int d) {
  KV_TODO();
}

// q, out  [num_q_rows, num_q_heads, head_dim]     k, v [num_kv_rows, num_kv_heads, head_dim]
// split.out [num_partials, head_dim]              split.lse [num_partials]
// grid (num_items), CTA (256): 8 warps of 32 / kPerRow lane groups; in a step, group x takes the
// keys x, x + kGroups, ... of the step's kStep. Inside the loop nobody waits for another warp.
template <typename T, int kHeadDim>
__global__ void __launch_bounds__(kThreads, kSlotsPerMultiprocessor)
    split_kv_kernel(AttentionArrays<T> a, SplitArrays split) {
  using L = Lanes<T, kHeadDim>;
  __shared__ float warp_m[kWarps], warp_l[kWarps], warp_acc[kWarps][kHeadDim];

  const SplitItem item = plan_entry(split.items, blockIdx.x);
  const SequenceRows rows = a.rows_of(item.sequence);
  const int lane = threadIdx.x % L::kPerRow;  // in its group
  const int group = threadIdx.x / L::kPerRow;
  const std::int64_t q_index = a.q_index(rows, item.row, item.head);

  // scale and log2(e) once here instead of at every score.
  float q[L::kOwned];
  const float factor = a.scale * kLog2e;
  for (int i = 0; i < L::kOwned; i += 4) {
    const float4 four =
        *reinterpret_cast<const float4*>(a.q + q_index * kHeadDim + L::element(lane, i));
    q[i] = four.x * factor;
    q[i + 1] = four.y * factor;
    q[i + 2] = four.z * factor;
    q[i + 3] = four.w * factor;
  }

  // In units of a load: this lane's place in the group's first row, and from row to row of a step.
  const std::int64_t first =
      a.kv_index(rows, item.begin + group, a.kv_head(item.head)) * L::kRowLoads + lane;
  const std::int64_t row_stride =
      static_cast<std::int64_t>(L::kGroups) * a.num_kv_heads * L::kRowLoads;
  const uint4* k = reinterpret_cast<const uint4*>(a.k) + first;
  const uint4* v = reinterpret_cast<const uint4*>(a.v) + first;

  GroupState<L::kOwned> state;
  int num_left = item.end - item.begin;
  for (; num_left >= L::kStep; num_left -= L::kStep) {
    take_step<true, T, kHeadDim>(state, q, k, v, row_stride, num_left);
    k += L::kRows * row_stride;
    v += L::kRows * row_stride;
  }
  if (num_left > 0) take_step<false, T, kHeadDim>(state, q, k, v, row_stride, num_left - group);

  combine_warp<L::kPerRow>(state);
  const int warp = threadIdx.x / kWarpSize;
  if (threadIdx.x % kWarpSize < L::kPerRow) {
    if (lane == 0) {
      warp_m[warp] = state.m * kLn2;
      warp_l[warp] = state.l;
    }
    for (int i = 0; i < L::kOwned; ++i) warp_acc[warp][L::element(lane, i)] = state.acc[i];
  }
  __syncthreads();  // every warp's state is written before anyone combines them

  const int d = threadIdx.x;
  if (d >= kHeadDim) return;
  const Combined result = combine(warp_m, warp_l, warp_acc, d);
  if (item.partial < 0) {
    a.out[q_index * kHeadDim + d] = result.out;
    if (d == 0 && a.lse) a.lse[q_index] = result.lse;
  } else {
    split.out[static_cast<std::int64_t>(item.partial) * kHeadDim + d] = result.out;
    if (d == 0) split.lse[item.partial] = result.lse;
  }
}

// How the threads of the merging CTA lie on the partial results: kSlices at a time, 4 elements
// each.
template <int kHeadDim>
struct MergeLanes {
  static constexpr int kPerPart = kHeadDim / 4;
  static constexpr int kSlices = kThreads / kPerPart;
};

// The parts of one query row and head: attention once more, with the parts in the place of keys,
// their log-sum-exps as scores and their results as values.
//
// grid (num_merges * heads_per_item), CTA (256); slice x takes the parts x, x + kSlices, ...
template <int kHeadDim>
__global__ void __launch_bounds__(kThreads)
    merge_kernel(SplitArrays split, const SequenceRows* sequences, int num_q_heads, float* out,
                 float* lse) {
  KV_TODO();
}

}  // namespace

void launch_merge(const AttentionLaunch& l) {
  const int num_ctas = l.split.num_merges * l.split.heads_per_item;
  if (num_ctas == 0) return;  // nothing was split: a grid may not be empty
  with_head_dim<float>(l.shape.heads.head_dim, [&](auto, auto dim) {
    const auto kernel = merge_kernel<dim.value>;
    launch(kernel, num_ctas, kThreads, 0, l.stream, l.split, l.sequences, l.shape.heads.num_q_heads,
           l.out, l.lse);
    check_cuda(cudaGetLastError(), "merge_kernel launch");
  });
}

void launch_split_kv(const AttentionLaunch& l) {
  with_kernel_types(l.shape, [&](auto type, auto dim) {
    const auto kernel = split_kv_kernel<decltype(type), dim.value>;
    launch(kernel, l.split.num_items, kThreads, 0, l.stream, arrays<decltype(type)>(l), l.split);
    check_cuda(cudaGetLastError(), "split_kv_kernel launch");
  });
  launch_merge(l);
}

}  // namespace kv::KV_BACKEND
