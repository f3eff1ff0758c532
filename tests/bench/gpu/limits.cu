// The limits of a GPU: a copy that does nothing else, matrix products that touch no memory.
//
// What they are for: a kernel's rate says little; its share of what the same machine does at best,
//                    measured in the same minutes, says how much is left.
#include <cstring>

#include "gpu/limits.hpp"
#include "kernel.cuh"

namespace kv::KV_BACKEND {
namespace {

using kv_bench::bench_value;
using kv_bench::kCopyBytesPerThread;
using kv_bench::kLeftOperands;
using kv_bench::kLimitThreads;
using kv_bench::kRightOperands;

// Grid (any), CTA (256): thread i sets elements i, i + threads, ...
template <typename T>
__global__ void __launch_bounds__(kLimitThreads)
    fill_kernel(T* to, std::int64_t count, std::uint32_t seed) {
  const std::int64_t num_threads = static_cast<std::int64_t>(gridDim.x) * kLimitThreads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kLimitThreads + threadIdx.x;
       i < count; i += num_threads)
    to[i] = narrow<T>(bench_value(seed, i));
}

constexpr int kCopiesPerThread = kCopyBytesPerThread / 16;

// Grid (bytes / 16 KiB), CTA (256): a CTA copies 16 KiB, a warp 512 bytes at a time, and all loads
// of a thread are under way before its first store.
__global__ void __launch_bounds__(kLimitThreads) copy_kernel(uint4* to, const uint4* from) {
  const std::int64_t first =
      static_cast<std::int64_t>(blockIdx.x) * kLimitThreads * kCopiesPerThread + threadIdx.x;
  uint4 x[kCopiesPerThread];
  for (int n = 0; n < kCopiesPerThread; ++n) x[n] = from[first + n * kLimitThreads];
  for (int n = 0; n < kCopiesPerThread; ++n) to[first + n * kLimitThreads] = x[n];
}

template <typename T>
__device__ void multiply_add(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  if constexpr (std::is_same_v<T, bf16>) {
    mma_m16n8k16_bf16(d, a, b);
  } else {
    mma_m16n8k16_f16(d, a, b);
  }
}

// Two neighbours of the array of bench_value(), packed.
template <typename T>
__device__ unsigned operand(int index) {
  return pack<T>(bench_value(1, 2 * index), bench_value(1, 2 * index + 1));
}

// out [gridDim.x * 256]; grid (any), CTA (256): every warp multiplies for itself.
template <typename T>
__global__ void __launch_bounds__(kLimitThreads) multiply_kernel(float* out, int rounds) {
  const int thread = blockIdx.x * kLimitThreads + threadIdx.x;
  unsigned a[kLeftOperands][4], b[kRightOperands][2];
  for (int i = 0; i < kLeftOperands; ++i)
    for (int r = 0; r < 4; ++r) a[i][r] = operand<T>(32 * thread + 4 * i + r);
  for (int j = 0; j < kRightOperands; ++j)
    for (int r = 0; r < 2; ++r) b[j][r] = operand<T>(32 * thread + 4 * kLeftOperands + 2 * j + r);
  float d[kLeftOperands][kRightOperands][4] = {};
  for (int round = 0; round < rounds; ++round)
    for (int i = 0; i < kLeftOperands; ++i)
      for (int j = 0; j < kRightOperands; ++j) multiply_add<T>(d[i][j], a[i], b[j]);
  float sum = 0.0f;
  for (int i = 0; i < kLeftOperands; ++i)
    for (int j = 0; j < kRightOperands; ++j)
      for (int r = 0; r < 4; ++r) sum += d[i][j][r];
  out[thread] = sum;
}

void fill(void* to, std::int64_t count, DType dtype, std::uint32_t seed, Stream stream) {
  if (count == 0) return;
  // 64 elements a thread, few enough CTAs for any grid.
  const dim3 grid(static_cast<unsigned>((count + 64 * kLimitThreads - 1) / (64 * kLimitThreads)));
  if (dtype == DType::f32) {
    launch(fill_kernel<float>, grid, kLimitThreads, 0, stream, static_cast<float*>(to), count,
           seed);
  } else if (dtype == DType::f16) {
    launch(fill_kernel<f16>, grid, kLimitThreads, 0, stream, static_cast<f16*>(to), count, seed);
  } else {
    require(dtype == DType::bf16, "fill() knows f32, f16 and bf16");
    launch(fill_kernel<bf16>, grid, kLimitThreads, 0, stream, static_cast<bf16*>(to), count, seed);
  }
  check_cuda(cudaGetLastError(), "fill_kernel launch");
}

void copy(void* to, const void* from, std::int64_t bytes, Stream stream) {
  constexpr std::int64_t kCtaBytes = kLimitThreads * kCopyBytesPerThread;
  require(bytes > 0 && bytes % kCtaBytes == 0, "copy() copies multiples of 16 KiB");
  launch(copy_kernel, dim3(static_cast<unsigned>(bytes / kCtaBytes)), kLimitThreads, 0, stream,
         static_cast<uint4*>(to), static_cast<const uint4*>(from));
  check_cuda(cudaGetLastError(), "copy_kernel launch");
}

void runtime_copy(void* to, const void* from, std::int64_t bytes, [[maybe_unused]] Stream stream) {
#ifdef __CUDACC__
  check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice,
                             reinterpret_cast<cudaStream_t>(stream)),
             "cudaMemcpyAsync");
#else
  std::memcpy(to, from, bytes);
#endif
}

void multiply(float* out, DType dtype, int num_ctas, int rounds, Stream stream) {
  require(dtype == DType::f16 || dtype == DType::bf16, "multiply() knows f16 and bf16");
  const auto kernel = dtype == DType::f16 ? multiply_kernel<f16> : multiply_kernel<bf16>;
  launch(kernel, dim3(num_ctas), kLimitThreads, 0, stream, out, rounds);
  check_cuda(cudaGetLastError(), "multiply_kernel launch");
}

}  // namespace

const kv_bench::LimitKernels& limit_kernels() {
  static const kv_bench::LimitKernels kernels = {fill, copy, runtime_copy, multiply};
  return kernels;
}

}  // namespace kv::KV_BACKEND
