// The one include of a kernel file.
//
// Under nvcc a kernel file is CUDA; under a host compiler the emulator stands in for the headers.
// Each build puts its kernels into a namespace of its own, so that one program can hold all three:
//   kv::gpu       compiled by nvcc
//   kv::emulated  compiled by the host compiler
//   kv::checked   the same, with every memory access checked and counted
#pragma once

#ifdef __CUDACC__

#include <cuda_pipeline.h>
#include <cuda_runtime.h>
/// The namespace of this build's kernels.
#define KV_BACKEND gpu

#else

#include "emulator/cuda.hpp"
#ifdef KV_EMULATOR_CHECKED
#define KV_BACKEND checked
#else
#define KV_BACKEND emulated
#endif

namespace kv::KV_BACKEND {
extern __shared__ unsigned char smem[];
}  // namespace kv::KV_BACKEND

#endif

namespace kv::KV_BACKEND {

/// The CTA's dynamic shared memory, aligned to 16 bytes; as many bytes as the launch asked for.
///
/// `extern __shared__ unsigned char smem[]` in the kernel is the same, but not in an unnamed
/// namespace: C++ then means another array, which nobody defines.
template <typename T>
__device__ T* dynamic_shared() {
#ifdef __CUDACC__
  extern __shared__ __align__(16) unsigned char smem[];
#endif
  return reinterpret_cast<T*>(smem);
}

}  // namespace kv::KV_BACKEND

#include "float16.cuh"
#include "launch.hpp"
#include "ptx.cuh"
