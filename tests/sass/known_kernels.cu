// Kernels whose machine code is known by thought: what test_sass.cpp must count in them.
//
// Each has its instructions once, or as often as its name or comment says, on every architecture.
#include "kernel.cuh"

namespace kv::KV_BACKEND {

// One load and one store of each width: 1, 2, 4, 8 and 16 bytes.
__global__ void __launch_bounds__(32)
    widths_kernel(const unsigned char* a, const short* b, const int* c, const uint2* d,
                  const uint4* e, unsigned char* a_out, short* b_out, int* c_out, uint2* d_out,
                  uint4* e_out) {
  const int i = threadIdx.x;
  a_out[i] = a[i];
  b_out[i] = b[i];
  c_out[i] = c[i];
  d_out[i] = d[i];
  e_out[i] = e[i];
}

// Four loads of 16 bytes into registers, all asked for before the first is used: 64 bytes in
// flight. 16 multiply-adds a pass; nothing else is one, the scaling of addresses included.
__global__ void __launch_bounds__(128)
    register_stream_kernel(const float4* in, float* out, float factor, int count) {
  float sum = 0.0f;
#pragma unroll 1
  for (int i = threadIdx.x; i < count; i += 4 * 128) {
    float4 x[4];
#pragma unroll
    for (int u = 0; u < 4; ++u) x[u] = in[i + 128 * u];
#pragma unroll
    for (int u = 0; u < 4; ++u) {
      sum = fmaf(sum, factor, x[u].x);
      sum = fmaf(sum, factor, x[u].y);
      sum = fmaf(sum, factor, x[u].z);
      sum = fmaf(sum, factor, x[u].w);
    }
  }
  out[threadIdx.x] = sum;
}

// The same loads one after the other, each used before the next is asked for: 16 bytes in flight.
// The next address depends on what the last load brought.
__global__ void __launch_bounds__(128) chained_kernel(const int4* in, int* out, int count) {
  int at = threadIdx.x;
#pragma unroll 1
  for (int i = 0; i < count; ++i) {
    const int4 x = in[at];
    at = x.x + x.y + x.z + x.w;
  }
  out[threadIdx.x] = at;
}

// A ring of asynchronous copies: a pass starts one of 16 bytes and waits until kPending groups are
// left, so that right before the wait kPending + 1 are under way.
template <int kPending>
__global__ void __launch_bounds__(64) ring_kernel(const uint4* in, uint4* out, int count) {
  __shared__ uint4 ring[8][64];
  uint4 sum = make_uint4(0, 0, 0, 0);
#pragma unroll 1
  for (int i = 0; i < count; ++i) {
    cp_async_16(&ring[i % 8][threadIdx.x], in + i * 64 + threadIdx.x);
    cp_async_commit();
    cp_async_wait<kPending>();
    const uint4 x = ring[(i + 1) % 8][threadIdx.x];
    sum = make_uint4(sum.x + x.x, sum.y + x.y, sum.z + x.z, sum.w + x.w);
  }
  out[threadIdx.x] = sum;
}
template __global__ void ring_kernel<1>(const uint4*, uint4*, int);
template __global__ void ring_kernel<3>(const uint4*, uint4*, int);

// Asynchronous copies of 4, 8 and 16 bytes, and 16 past the first cache.
__global__ void __launch_bounds__(32) copies_kernel(const uint4* in, uint4* out) {
  __shared__ uint4 tile[4][32];
#if __CUDA_ARCH__ >= 800
  const unsigned to = shared_address(&tile[0][threadIdx.x]);
  const uint4* from = in + threadIdx.x;
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory");
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(to + 512), "l"(from) : "memory");
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(to + 1024), "l"(from) : "memory");
  cp_async_16(&tile[3][threadIdx.x], from);
  cp_async_commit();
  cp_async_wait<0>();
#endif
  for (int i = 0; i < 4; ++i) out[32 * i + threadIdx.x] = tile[i][threadIdx.x];
}

// Six mma and one ldmatrix a pass, and two barriers. Where there is no such mma (sm_75) it traps.
__global__ void __launch_bounds__(32) mma_kernel(const uint4* in, float* out, int count) {
  __shared__ uint4 tile[32];
  float d[6][4] = {};
#pragma unroll 1
  for (int i = 0; i < count; ++i) {
    __syncthreads();
    tile[threadIdx.x] = in[i * 32 + threadIdx.x];
    __syncthreads();
    unsigned a[4];
    ldmatrix_x4(a, &tile[threadIdx.x]);
    const unsigned b[2] = {a[1], a[2]};
#pragma unroll
    for (int n = 0; n < 3; ++n) mma_m16n8k16_bf16(d[n], a, b);
#pragma unroll
    for (int n = 3; n < 6; ++n) mma_m16n8k16_f16(d[n], a, b);
  }
  for (int n = 0; n < 6; ++n)
    for (int e = 0; e < 4; ++e) out[(n * 4 + e) * 32 + threadIdx.x] = d[n][e];
}

// A loop in a loop: the inner one has the wide loads, and is left early by a branch.
__global__ void __launch_bounds__(32)
    nested_kernel(const uint4* in, const int* lengths, unsigned* out, int count) {
  unsigned sum = 0;
#pragma unroll 1
  for (int i = 0; i < count; ++i) {
    const int length = lengths[i];
#pragma unroll 1
    for (int j = 0; j < length; ++j) {
      const uint4 x =
          __ldcg(&in[sum % 64 + j]);  // stays one load, though not all is needed at once
      if (x.x == 0) break;
      sum += x.y + x.z + x.w;
    }
  }
  out[threadIdx.x] = sum;
}

// Three shuffles, one ex2, and 4,096 bytes of static shared memory behind one barrier.
__global__ void __launch_bounds__(256) misc_kernel(const float* in, float* out, int at) {
  __shared__ float tile[1024];
  for (int i = threadIdx.x; i < 1024; i += 256) tile[i] = in[i];
  __syncthreads();
  float x = tile[threadIdx.x + at];
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  x += __shfl_down_sync(0xffffffffu, x, 2);
  x += __shfl_sync(0xffffffffu, x, at);
  out[threadIdx.x] = exp2_approx(x);
}

// An array that cannot stay in registers, because its index is not known: local memory.
__global__ void __launch_bounds__(32) local_memory_kernel(const int* in, int* out, int count) {
  int counts[64];
  for (int i = 0; i < 64; ++i) counts[i] = in[i];
  for (int i = 0; i < count; ++i) counts[in[i] & 63] += i;
  for (int i = 0; i < 64; ++i) out[i] = counts[i];
}

// No __launch_bounds__.
__global__ void unbounded_kernel(float* out) { out[threadIdx.x] = 1.0f; }

}  // namespace kv::KV_BACKEND
