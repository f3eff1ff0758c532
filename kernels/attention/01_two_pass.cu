// Attention in two passes, as the formula is written: all scores, then softmax and the sum over V.
//
// What it shows:  the score matrix: [q_len, kv_len] numbers a head that are written to global
//                 memory and read back twice, only because the softmax wants the maximum before
//                 the first exponential.
// Next kernel:    02_online.cu keeps a running maximum instead, and no score leaves its registers.
#include "attention/arrays.cuh"
#include "attention/head_row.cuh"
#include "attention/tile_shape.hpp"

namespace kv::KV_BACKEND {
namespace {

constexpr int kThreads = 32 * kWarpsPerRow;
// CTAs of an SM: the compiler may use 64 registers a thread, and needs no spills.
constexpr int kMinCtas = 8;

// Legend: t query row, j key, h query head, g KV head, d element.
// q, out [num_q_rows, num_q_heads, head_dim] fp32; k, v [num_kv_rows, num_kv_heads, head_dim] T
// scores [num_q_rows, num_q_heads, max_kv_len], the visible keys of each row valid
// Both kernels: grid (query rows, num_q_heads, num_sequences), CTA (128): one query row and head.
// Its 4 warps take 32 keys in turn; the lanes of a warp share the elements of a head, or, where
// scores are concerned, a key each.

// scores[t, h, j] = scale * sum_d q[t, h, d] * k[j, g, d]
template <typename T, int kHeadDim>
__global__ void __launch_bounds__(kThreads, kMinCtas)
    scores_kernel(AttentionArrays<T> a, float* scores, int max_kv_len) {
  const SequenceRows rows = a.rows_of(blockIdx.z);
  const int t = blockIdx.x;
  const int h = blockIdx.y;
  if (t >= rows.q_len) return;  // sequences differ in length
  const int lane = threadIdx.x % 32;
  const int num_keys = visible_keys(t, rows, a.causal);
  const std::int64_t q_index = a.q_index(rows, t, h);
  const HeadRow<kHeadDim> q = load_head_row<kHeadDim>(a.q + q_index * kHeadDim);

  for (int j_begin = threadIdx.x / 32 * 32; j_begin < num_keys; j_begin += kThreads) {
    const int count = min(32, num_keys - j_begin);
    float mine = 0.0f;  // lane i keeps the score of the i-th key, so that one store writes them all
    for (int i = 0; i < count; ++i) {
      const std::int64_t row = a.kv_index(rows, j_begin + i, a.kv_head(h));
      const float s = a.scale * dot(q, load_head_row<kHeadDim>(a.k + row * kHeadDim));
      if (i == lane) mine = s;
    }
    if (lane < count) scores[q_index * max_kv_len + j_begin + lane] = mine;
  }
}

// out[t, h, d] = sum_j exp(scores[t, h, j] - m) * v[j, g, d] / sum_j exp(scores[t, h, j] - m)
template <typename T, int kHeadDim>
__global__ void __launch_bounds__(kThreads, kMinCtas)
    softmax_values_kernel(AttentionArrays<T> a, const float* scores, int max_kv_len) {
  __shared__ float warp_m[kWarpsPerRow];
  __shared__ float warp_l[kWarpsPerRow];
  __shared__ float warp_acc[kWarpsPerRow][kHeadDim];
  const SequenceRows rows = a.rows_of(blockIdx.z);
  const int t = blockIdx.x;
  const int h = blockIdx.y;
  if (t >= rows.q_len) return;
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const int num_keys = visible_keys(t, rows, a.causal);
  const std::int64_t q_index = a.q_index(rows, t, h);
  const float* row_scores = scores + q_index * max_kv_len;

  //! [maximum first]
  float m = -INFINITY;
  for (int j = threadIdx.x; j < num_keys; j += kThreads) m = fmaxf(m, row_scores[j]);
  m = warp_max(m);
  if (lane == 0) warp_m[warp] = m;
  __syncthreads();  // every warp's maximum is there before anyone takes the largest
  for (int w = 0; w < kWarpsPerRow; ++w) m = fmaxf(m, warp_m[w]);
  //! [maximum first]

  float l = 0.0f;  // of the keys that this lane had
  HeadRow<kHeadDim> acc;
  for (int j_begin = warp * 32; j_begin < num_keys; j_begin += kThreads) {
    const int count = min(32, num_keys - j_begin);
    const float mine = lane < count ? expf(row_scores[j_begin + lane] - m) : 0.0f;
    l += mine;
    for (int i = 0; i < count; ++i) {
      const float p = __shfl_sync(0xffffffffu, mine, i);
      const std::int64_t row = a.kv_index(rows, j_begin + i, a.kv_head(h));
      accumulate(acc, 1.0f, p, load_head_row<kHeadDim>(a.v + row * kHeadDim));
    }
  }

  l = warp_sum(l);
  if (lane == 0) warp_l[warp] = l;
  for_each_element<kHeadDim>([&](int i, int d) { warp_acc[warp][d] = acc.x[i]; });
  __syncthreads();  // every warp's sums are there before anyone adds them up
  l = 0.0f;
  for (int w = 0; w < kWarpsPerRow; ++w) l += warp_l[w];
  for (int d = threadIdx.x; d < kHeadDim; d += kThreads) {
    float sum = 0.0f;
    for (int w = 0; w < kWarpsPerRow; ++w) sum += warp_acc[w][d];
    a.out[q_index * kHeadDim + d] = l == 0.0f ? 0.0f : sum / l;  // 0: a row without keys
  }
  if (a.lse && threadIdx.x == 0) a.lse[q_index] = l == 0.0f ? -INFINITY : m + logf(l);
}

}  // namespace

void launch_two_pass(const AttentionLaunch& l) {
  with_kernel_types(l.shape, [&](auto type, auto head_dim) {
    using T = decltype(type);
    const dim3 grid(l.max_q_len, l.shape.heads.num_q_heads, l.num_sequences);
    const auto first = scores_kernel<T, head_dim.value>;
    launch(first, grid, kThreads, 0, l.stream, arrays<T>(l), l.scores, l.max_kv_len);
    check_cuda(cudaGetLastError(), "scores_kernel launch");
    const auto second = softmax_values_kernel<T, head_dim.value>;
    launch(second, grid, kThreads, 0, l.stream, arrays<T>(l), l.scores, l.max_kv_len);
    check_cuda(cudaGetLastError(), "softmax_values_kernel launch");
  });
}

}  // namespace kv::KV_BACKEND
