// Attention on tensor cores: the FlashAttention forward pass in 16 bit.
//
// What it shows:  03_tiled's loop with both products done by mma.sync. Keys and values are copied
//                 asynchronously into a swizzled shared memory; what one mma leaves in registers
//                 is what the next one takes (fragments.cuh).
// Source:         Dao 2023 (FlashAttention-2), algorithm 1; PTX ISA, sections "mma", "ldmatrix",
//                 "cp.async". Differs: one warp holds 16 query rows, and the copy of the next keys
//                 begins before the scores of these, which takes a second buffer.
// Next kernel:    05_split_kv.cu, for a single query row: then there is nothing to multiply by
//                 tiles, and the machine waits for the keys alone.
//
// Rounding: q and the weights are rounded to the format of K and V before they are multiplied;
// maximum, sum and accumulators are fp32. In fp16 |q| must stay below 65520.
// A key that some row of the 64 sees is multiplied by the weight 0 for the others: its value must
// be finite. Keys that none of them sees are not read.
#include <type_traits>

#include "attention/arrays.cuh"
#include "attention/fragments.cuh"
#include "attention/kernel_facts.hpp"
#include "attention/tensor_tiles.cuh"

namespace kv::KV_BACKEND {
namespace {

constexpr int kThreads = kTensorCoreThreads;
constexpr int kCtaRows = kTensorCoreRows;
constexpr int kWarpRows = 16;  // query rows of a warp: the m of the mma
static_assert(kThreads / 32 * kWarpRows == kCtaRows);

/// Keys that query row t sees, or the last row if the sequence has no row t. It reads the sequence
/// at every call: numbers kept through the loop would cost registers there.
template <typename T>
__device__ inline int keys_of_row(const AttentionArrays<T>& a, int t) {
  const SequenceRows sequence = a.rows_of(blockIdx.z);
  return visible_keys(min(t, sequence.q_len - 1), sequence, a.causal);
}

/// Scores of keys that a row does not see become -inf.
///
/// \param begin first key of the tile
//! [mask]
template <int kNumTiles, typename T>
__device__ inline void mask(float (&s)[kNumTiles][4], const AttentionArrays<T>& a, int t,
                            int begin) {
  for (int r = 0; r < 2; ++r) {
    const int visible = keys_of_row(a, t + 8 * r) - begin - static_cast<int>(threadIdx.x % 4 * 2);
    for (int i = 0; i < kNumTiles; ++i)
      for (int e = 0; e < 2; ++e)
        if (8 * i + e >= visible) s[i][2 * r + e] = -INFINITY;
  }
}
//! [mask]

/// The rows t and t + 8 of the thread, rounded; rows past the sequence are zero.
template <typename T, int kHeadDim>
__device__ inline void load_queries(Queries<kHeadDim>& q, const AttentionArrays<T>& a, int t) {
  const SequenceRows sequence = a.rows_of(blockIdx.z);
  const std::int64_t stride = static_cast<std::int64_t>(a.num_q_heads) * kHeadDim;
  const float* const row = a.q + a.q_index(sequence, t, blockIdx.y) * kHeadDim;
  for (int d = 0; d < kHeadDim / 16; ++d) {
    unsigned fragment[4];
    for (int i = 0; i < 4; ++i) {  // rows t | t + 8 | t | t + 8, elements 0 | 0 | 8 | 8 of the 16
      float2 x = make_float2(0.0f, 0.0f);
      if (t + i % 2 * 8 < sequence.q_len)
        x = *reinterpret_cast<const float2*>(row + i % 2 * 8 * stride + 16 * d + i / 2 * 8 +
                                             threadIdx.x % 4 * 2);
      fragment[i] = pack<T>(x.x, x.y);
    }
    q.set(d, fragment);
  }
}

/// out = numerator / denominator for the thread's two rows, t and t + 8.
template <typename T, int kHeadDim>
__device__ inline void write_rows(const AttentionArrays<T>& a, const Rows<kHeadDim>& rows, int t) {
  // Read again: kept from the beginning, it would hold registers all through the loop.
  const SequenceRows sequence = a.rows_of(blockIdx.z);
  const int h = blockIdx.y;
  for (int r = 0; r < 2; ++r) {
    const float l = quad_sum(rows.l[r]);
    if (t + 8 * r >= sequence.q_len) continue;
    const float inverse = l == 0.0f ? 0.0f : 1.0f / l;
    const std::int64_t row = a.q_index(sequence, t + 8 * r, h);
    float* const out = a.out + row * kHeadDim + threadIdx.x % 4 * 2;
    for (int i = 0; i < kHeadDim / 8; ++i)
      *reinterpret_cast<float2*>(out + 8 * i) =
          make_float2(rows.out[i][2 * r] * inverse, rows.out[i][2 * r + 1] * inverse);
    if (a.lse && threadIdx.x % 4 == 0)
      a.lse[row] = l == 0.0f ? -INFINITY : rows.m[r] * kLn2 + logf(l);
  }
}

// Side by side on an SM: the compiler gives a thread no more registers than that leaves (168 or
// 255).
template <int kHeadDim>
constexpr int kMinCtas = kHeadDim <= 64 ? 3 : 2;

// q, out [T, H, D] fp32; k, v [J, G, D] of T; lse [T, H]
// grid (query tiles, H, sequences), CTA 4 warps; warp w owns query rows 16 w to 16 w + 15 of a tile
// a.scale is the scale times log2(e)
template <typename T, int kHeadDim>
__global__ void __launch_bounds__(kThreads, kMinCtas<kHeadDim>)
    tensor_core_kernel(AttentionArrays<T> a) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
  // AttentionShape::validate() does not let it come to this: no bf16, and too few registers.
  if (!std::is_same_v<T, f16> || kHeadDim > 128) {
    __trap();
    return;
  }
#endif
  using Tiles = Tiles<kHeadDim>;
  constexpr int kKeys = Tiles::kKeys;
  Tiles& tiles = *dynamic_shared<Tiles>();
  const SequenceRows sequence = a.rows_of(blockIdx.z);
  const int h = blockIdx.y;
  // Causal: the last rows have the most keys. Who starts last should have the least to do.
  const int cta_begin = static_cast<int>(gridDim.x - 1 - blockIdx.x) * kCtaRows;
  if (cta_begin >= sequence.q_len) return;
  const int t = cta_begin + threadIdx.x / 32 * kWarpRows + threadIdx.x % 32 / 4;  // and t + 8

  const unsigned stride = a.num_kv_heads * kHeadDim;  // elements between two keys
  const auto lane = Lane<kHeadDim>::make(stride);

  const std::int64_t kv_begin = a.kv_index(sequence, 0, a.kv_head(h)) * kHeadDim;
  const T* k = a.k + kv_begin;  // row 0 of the tile to be copied next
  const T* v = a.v + kv_begin;
  if (const int num_keys = keys_of_row(a, cta_begin + kCtaRows - 1); num_keys > 0)
    copy_tile<true, kHeadDim>(tiles.k[0], k, lane, stride, num_keys);
  cp_async_commit();
  Queries<kHeadDim> q;
  load_queries(q, a, t);
  Rows<kHeadDim> rows = {};

  // One tile of keys. kMasked: a row may not see all of them, or this tile or the next is not
  // whole.
  const auto step = [&](auto masked, int begin, int num_keys) {
    constexpr bool kMasked = decltype(masked)::value;
    float s[kKeys / 8][4];

    //! [pipeline]
    cp_async_wait<0>();
    __syncthreads();  // this tile's keys, copied by all, are there for all; and all are done with
                      // the values and keys of the last one, so that both may be overwritten
    copy_tile<kMasked, kHeadDim>(tiles.v, v, lane, stride, num_keys - begin);
    cp_async_commit();
    v += static_cast<std::int64_t>(stride) * kKeys;
    k += static_cast<std::int64_t>(stride) * kKeys;
    if (!kMasked || begin + kKeys < num_keys)
      copy_tile<kMasked, kHeadDim>(tiles.k[(begin / kKeys + 1) % 2], k, lane, stride,
                                   num_keys - begin - kKeys);
    cp_async_commit();

    multiply_keys<T, kHeadDim>(s, q, tiles.k[begin / kKeys % 2], lane.k);
    if constexpr (kMasked) mask(s, a, t, begin);
    softmax_step(s, rows, a.scale);

    cp_async_wait<1>();  // the values; the next keys may stay under way
    __syncthreads();     // the values, copied by all, are there for all
    multiply_values<T, kHeadDim>(rows, s, tiles.v, lane.v);
    //! [pipeline]
  };
  const int common_keys = keys_of_row(a, cta_begin);  // that all rows see
  int begin = 0;
  for (; begin + 2 * kKeys <= common_keys; begin += kKeys) step(std::false_type{}, begin, 0);
  const int num_keys = keys_of_row(a, cta_begin + kCtaRows - 1);  // that some row sees
  for (; begin < num_keys; begin += kKeys) step(std::true_type{}, begin, num_keys);

  write_rows(a, rows, t);
}

template <typename T>
void launch_for(const AttentionLaunch& l) {
  with_head_dim<T>(l.shape.heads.head_dim, [&](auto type, auto dim) {
    using Type = decltype(type);
    const auto kernel = tensor_core_kernel<Type, dim.value>;
    constexpr std::size_t kBytes = kSharedBytes<dim.value>;
    static_assert(kBytes == dynamic_shared_bytes("tensor_core_kernel", dim.value));
    check_cuda(allow_shared(kernel, kBytes), "shared memory of tensor_core_kernel");
    const dim3 grid((l.max_q_len + kCtaRows - 1) / kCtaRows, l.shape.heads.num_q_heads,
                    l.num_sequences);
    AttentionArrays<Type> a = arrays<Type>(l);
    a.scale *= kLog2E;  // here, since a parameter of the kernel takes no register
    launch(kernel, grid, kThreads, kBytes, l.stream, a);
    check_cuda(cudaGetLastError(), "tensor_core_kernel launch");
  });
}

}  // namespace

void launch_tensor_core(const AttentionLaunch& launch) {
  // The largest score is looked for before the scale is on.
  require(launch.shape.scale > 0.0f, "step 4 (tensor_core) needs a scale above 0");
  if (launch.shape.kv_dtype == DType::f16) return launch_for<f16>(launch);
  require(launch.shape.kv_dtype == DType::bf16, "step 4 (tensor_core) needs K and V in 16 bit");
  launch_for<bf16>(launch);
}

}  // namespace kv::KV_BACKEND
