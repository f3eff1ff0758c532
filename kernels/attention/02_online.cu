// Attention in one pass: the softmax runs along with the keys.
//
// What it shows:  with a running maximum and a running sum no score has to be kept: the state of a
//                 row is head_dim + 2 numbers, whatever the number of keys.
// Source:         Milakov & Gimelshein 2018, algorithm 3, with the output as a third running sum
//                 (Rabe & Staats 2021).
// Next kernel:    each row still reads all of K and V for itself; 03_tiled.cu lets 64 rows share
//                 what is read.
#include "attention/arrays.cuh"
#include "attention/head_row.cuh"
#include "attention/tile_shape.hpp"
#include "kv/attention/online_softmax.hpp"

namespace kv::KV_BACKEND {
namespace {

constexpr int kThreads = 32 * kWarpsPerRow;
constexpr int kMinCtas =
    8;  // of an SM: the compiler may use 64 registers a thread, and needs no spills

// Legend: t query row, j key, h query head, g KV head, d element.
// q, out [num_q_rows, num_q_heads, head_dim] fp32; k, v [num_kv_rows, num_kv_heads, head_dim] T
// grid (query rows, num_q_heads, num_sequences), CTA (128): one query row and head, whose keys the
// 4 warps take in turn; the lanes of a warp share the elements of a head.
template <typename T, int kHeadDim>
__global__ void __launch_bounds__(kThreads, kMinCtas) online_kernel(AttentionArrays<T> a) {
  __shared__ float part_m[kWarpsPerRow];
  __shared__ float part_l[kWarpsPerRow];
  __shared__ float part_acc[kWarpsPerRow][kHeadDim];
  const SequenceRows rows = a.rows_of(blockIdx.z);
  const int t = blockIdx.x;
  const int h = blockIdx.y;
  if (t >= rows.q_len) return;  // the whole CTA: sequences differ in length
  const int warp = threadIdx.x / 32;
  const int num_keys = visible_keys(t, rows, a.causal);
  const std::int64_t q_index = a.q_index(rows, t, h);
  const HeadRow<kHeadDim> q = load_head_row<kHeadDim>(a.q + q_index * kHeadDim);

  //! [online softmax]
  OnlineSoftmax state;
  HeadRow<kHeadDim> acc;  // sum over the keys so far of exp(s_j - m) v_j
  //! [online loop]
  for (int j = warp; j < num_keys; j += kWarpsPerRow) {
    const std::int64_t row = a.kv_index(rows, j, a.kv_head(h)) * kHeadDim;
    const float s = a.scale * dot(q, load_head_row<kHeadDim>(a.k + row));
    const float rescale = state.push(s);
    accumulate(acc, rescale, expf(s - state.m), load_head_row<kHeadDim>(a.v + row));
  }
  //! [online loop]
  //! [online softmax]

  // Four warps have seen a quarter of the keys each: what merges them is the same step once more,
  // with a whole warp in the place of one key.
  if (threadIdx.x % 32 == 0) {
    part_m[warp] = state.m;
    part_l[warp] = state.l;
  }
  for_each_element<kHeadDim>([&](int i, int d) { part_acc[warp][d] = acc.x[i]; });
  __syncthreads();  // the parts of all warps are there before any thread merges them
  float m = -INFINITY;
  for (int w = 0; w < kWarpsPerRow; ++w) m = fmaxf(m, part_m[w]);
  OnlineSoftmax whole;
  whole.m = m;
  float factor[kWarpsPerRow];
  for (int w = 0; w < kWarpsPerRow; ++w) {
    factor[w] = part_l[w] == 0.0f ? 0.0f : expf(part_m[w] - m);  // 0: a warp without keys
    whole.l += factor[w] * part_l[w];
  }
  for (int d = threadIdx.x; d < kHeadDim; d += kThreads) {
    float sum = 0.0f;
    for (int w = 0; w < kWarpsPerRow; ++w) sum += factor[w] * part_acc[w][d];
    a.out[q_index * kHeadDim + d] = whole.l == 0.0f ? 0.0f : sum / whole.l;
  }
  if (a.lse && threadIdx.x == 0) a.lse[q_index] = whole.log_sum_exp();
}

}  // namespace

void launch_online(const AttentionLaunch& l) {
  with_kernel_types(l.shape, [&](auto type, auto head_dim) {
    using T = decltype(type);
    const auto kernel = online_kernel<T, head_dim.value>;
    const dim3 grid(l.max_q_len, l.shape.heads.num_q_heads, l.num_sequences);
    launch(kernel, grid, kThreads, 0, l.stream, arrays<T>(l));
    check_cuda(cudaGetLastError(), "online_kernel launch");
  });
}

}  // namespace kv::KV_BACKEND
