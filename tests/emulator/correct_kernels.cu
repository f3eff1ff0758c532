// Kernels without bugs: the emulator must compute what a GPU would, and report nothing.
#include "kernel.cuh"
#include "kernels.hpp"

namespace kv::KV_BACKEND {
namespace {

constexpr unsigned kAllLanes = 0xffffffffu;

__global__ void sum_by_tree_kernel(const float* in, float* out) {
  __shared__ float partial[256];
  const int i = threadIdx.x;
  partial[i] = in[blockIdx.x * 256 + i];
  for (int half = 128; half > 0; half /= 2) {
    __syncthreads();  // the sums of the last round are visible
    if (i < half) partial[i] += partial[i + half];
  }
  if (i == 0) out[blockIdx.x] = partial[0];
}

__global__ void sum_by_shuffle_kernel(const float* in, float* out, int count) {
  __shared__ float partial[32];
  const int i = threadIdx.x;
  float sum = i < count ? in[i] : 0.0f;
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(kAllLanes, sum, offset);
  if (i % 32 == 0) partial[i / 32] = sum;
  __syncthreads();  // every warp's sum is there
  if (i >= 32) return;
  sum = i < static_cast<int>(blockDim.x) / 32 ? partial[i] : 0.0f;
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(kAllLanes, sum, offset);
  if (i == 0) *out = sum;
}

constexpr int kTile = 32;
constexpr int kTileRows = 8;  // rows that the CTA moves at a time

template <int kPadding>
__global__ void transpose_kernel(const float* in, float* out, int rows, int columns) {
  __shared__ float tile[kTile][kTile + kPadding];
  const int x = threadIdx.x;
  for (int y = threadIdx.y; y < kTile; y += kTileRows) {
    const int row = blockIdx.y * kTile + y;
    const int column = blockIdx.x * kTile + x;
    if (row < rows && column < columns) tile[y][x] = in[row * columns + column];
  }
  __syncthreads();  // the tile is complete before others read its columns
  for (int y = threadIdx.y; y < kTile; y += kTileRows) {
    const int row = blockIdx.x * kTile + y;
    const int column = blockIdx.y * kTile + x;
    if (row < columns && column < rows) out[row * rows + column] = tile[x][y];
  }
}

constexpr int kStage = 512;  // floats; 128 threads copy 16 bytes each

__global__ void double_buffered_kernel(const float* in, float* out, int count) {
  auto* stage = dynamic_shared<float>();  // [2, kStage]
  const int i = threadIdx.x;
  const int num_stages = count / kStage;
  cp_async_16(stage + 4 * i, in + 4 * i);
  cp_async_commit();
  for (int s = 0; s < num_stages; ++s) {
    if (s + 1 < num_stages)
      cp_async_16(stage + (s + 1) % 2 * kStage + 4 * i, in + (s + 1) * kStage + 4 * i);
    cp_async_commit();  // also an empty group, so that the count below is always right
    cp_async_wait<1>();
    __syncthreads();  // all threads' copies of stage s have arrived
    for (int k = i; k < kStage; k += blockDim.x)
      out[s * kStage + k] = 2.0f * stage[s % 2 * kStage + (k + 1) % kStage];
    __syncthreads();  // nobody may refill the stage before all have read it
  }
}

template <bool kIsBf16>
__global__ void multiply_kernel(const unsigned short* a, const unsigned short* b, float* d) {
  __shared__ __align__(16) unsigned short tile[2][16][16];  // a, and b in columns 0 to 7
  const int lane = threadIdx.x;
  for (int i = lane; i < 256; i += 32) tile[0][i / 16][i % 16] = a[i];
  for (int i = lane; i < 128; i += 32) tile[1][i / 8][i % 8] = b[i];
  __syncwarp();  // one warp: its lanes have written what the others load
  unsigned fragment_a[4];
  unsigned fragment_b[2];
  ldmatrix_x4(fragment_a, &tile[0][lane % 16][lane / 16 * 8]);
  ldmatrix_x2_trans(fragment_b, &tile[1][lane % 16][0]);
  float fragment_d[4];
  for (int r = 0; r < 4; ++r) fragment_d[r] = d[(lane / 4 + r / 2 * 8) * 8 + lane % 4 * 2 + r % 2];
  if (kIsBf16) {
    mma_m16n8k16_bf16(fragment_d, fragment_a, fragment_b);
  } else {
    mma_m16n8k16_f16(fragment_d, fragment_a, fragment_b);
  }
  for (int r = 0; r < 4; ++r) d[(lane / 4 + r / 2 * 8) * 8 + lane % 4 * 2 + r % 2] = fragment_d[r];
}

__global__ void load_matrices_kernel(const unsigned short* in, unsigned* out) {
  __shared__ __align__(16) unsigned short rows[32][8];
  const int lane = threadIdx.x;
  for (int i = 0; i < 8; ++i) rows[lane][i] = in[lane * 8 + i];
  __syncwarp();  // the rows are complete
  unsigned r[4];
  ldmatrix_x4(r, rows[lane]);
  for (int m = 0; m < 4; ++m) out[lane * 8 + m] = r[m];
  ldmatrix_x4_trans(r, rows[lane]);
  for (int m = 0; m < 4; ++m) out[lane * 8 + 4 + m] = r[m];
}

__global__ void histogram_kernel(const int* values, int* bins, int count, int num_bins) {
  auto* local = dynamic_shared<int>();
  for (int i = threadIdx.x; i < num_bins; i += blockDim.x) local[i] = 0;
  __syncthreads();  // the bins are zero before anyone counts
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) atomicAdd(&local[values[i]], 1);
  __syncthreads();  // all of this CTA has counted
  for (int b = threadIdx.x; b < num_bins; b += blockDim.x) atomicAdd(&bins[b], local[b]);
}

__global__ void exchange_kernel(int* out) {
  const int lane = threadIdx.x;
  const int value = 100 + lane;
  int* mine = out + lane * 8;
  mine[0] = __shfl_sync(kAllLanes, value, 5);
  mine[1] = __shfl_up_sync(kAllLanes, value, 3);
  mine[2] = __shfl_down_sync(kAllLanes, value, 3, 8);
  mine[3] = __shfl_xor_sync(kAllLanes, value, 9);
  mine[4] = __any_sync(kAllLanes, lane == 7);
  mine[5] = __all_sync(kAllLanes, lane < 31);
  mine[6] = static_cast<int>(__ballot_sync(kAllLanes, lane % 3 == 0));
  // Two halves of a warp apart from each other, then together again.
  mine[7] =
      lane < 16 ? __shfl_xor_sync(0x0000ffffu, value, 1) : __shfl_sync(0xffff0000u, value, 31);
  __syncwarp();  // the halves meet again
}

__global__ void barrier_votes_kernel(int* out, int limit) {
  const int i = threadIdx.x;
  const int yes = i < limit;
  int* mine = out + i * 3;
  mine[0] = __syncthreads_count(yes);
  mine[1] = __syncthreads_and(yes);
  mine[2] = __syncthreads_or(yes);
}

__global__ void copy_vectors_kernel(const float* in, float* out, int count, int stride) {
  const int i = (blockIdx.x * blockDim.x + threadIdx.x) * stride;
  if (i < count / 4) reinterpret_cast<float4*>(out)[i] = reinterpret_cast<const float4*>(in)[i];
}

__global__ void warp_exchange_kernel(float* out) {
  __shared__ float slots[64];
  const int i = threadIdx.x;
  const int warp = i / 32 * 32;
  for (int round = 0; round < 3; ++round) {
    slots[i] = static_cast<float>(i + round);
    __syncwarp();  // the neighbour's slot is written
    out[i] = slots[warp + (i + 1) % 32];
    __syncwarp();  // nobody overwrites a slot before its reader is done
  }
}

__global__ void locked_count_kernel(int* lock, int* counter) {
  if (threadIdx.x % 32 != 0) return;
  while (atomicCAS(lock, 0, 1) != 0) {
  }
  __threadfence();
  const int before = atomicAdd(counter, 0);
  atomicExch(counter, before + 1);
  __threadfence();
  atomicExch(lock, 0);
}

void launch_transpose(const float* in, float* out, int rows, int columns, int padding) {
  const dim3 grid((columns + kTile - 1) / kTile, (rows + kTile - 1) / kTile);
  const auto kernel = padding == 0 ? transpose_kernel<0> : transpose_kernel<1>;
  launch(kernel, grid, dim3(kTile, kTileRows), 0, nullptr, in, out, rows, columns);
}

void launch_multiply(const unsigned short* a, const unsigned short* b, float* d, bool is_bf16) {
  const auto kernel = is_bf16 ? multiply_kernel<true> : multiply_kernel<false>;
  launch(kernel, 1, 32, 0, nullptr, a, b, d);
}

}  // namespace

const CorrectKernels& correct_kernels() {
  static const CorrectKernels table = {
      [](const float* in, float* out, int num_ctas) {
        launch(sum_by_tree_kernel, num_ctas, 256, 0, nullptr, in, out);
      },
      [](const float* in, float* out, int count) {
        launch(sum_by_shuffle_kernel, 1, (count + 31) / 32 * 32, 0, nullptr, in, out, count);
      },
      launch_transpose,
      [](const float* in, float* out, int count) {
        launch(double_buffered_kernel, 1, 128, 2 * kStage * sizeof(float), nullptr, in, out, count);
      },
      launch_multiply,
      [](const unsigned short* in, unsigned* out) {
        launch(load_matrices_kernel, 1, 32, 0, nullptr, in, out);
      },
      [](const int* values, int* bins, int count, int num_bins) {
        launch(histogram_kernel, (count + 127) / 128, 128, num_bins * sizeof(int), nullptr, values,
               bins, count, num_bins);
      },
      [](int* out) { launch(exchange_kernel, 1, 32, 0, nullptr, out); },
      [](int* out, int num_threads, int limit) {
        launch(barrier_votes_kernel, 1, num_threads, 0, nullptr, out, limit);
      },
      [](const float* in, float* out, int count, int stride) {
        launch(copy_vectors_kernel, (count / 4 + 127) / 128, 128, 0, nullptr, in, out, count,
               stride);
      },
      [](float* out) { launch(warp_exchange_kernel, 1, 64, 0, nullptr, out); },
      [](int* lock, int* counter) {
        launch(locked_count_kernel, 2, 256, 0, nullptr, lock, counter);
      },
  };
  return table;
}

}  // namespace kv::KV_BACKEND
