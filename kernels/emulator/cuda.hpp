// What a kernel file sees in the place of the CUDA headers when a host compiler builds it.
//
// One fiber runs each CUDA thread; a fiber never leaves its operating-system thread, and neither
// does its CTA. So `__shared__` is thread_local: one copy per CTA that is in flight.
// `extern __shared__ unsigned char smem[]` must have that name: shared_storage.cpp defines it.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "async_copy.hpp"
#include "atomics.hpp"
#include "collectives.hpp"
#include "math.hpp"
#include "runtime_api.hpp"
#include "site.hpp"
#include "tensor_core.hpp"
#include "vector_types.hpp"

// glibc uses __noinline__ in attributes: it must not be a macro here.
#define __global__
#define __device__
#define __host__
#define __constant__ const
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
// constinit: without it g++ calls an initialiser that nobody defines for `extern` arrays.
#define __shared__ constinit thread_local

namespace kv::emulator {

/// The built-in variables of the fiber that runs now on this operating-system thread.
struct Builtins {
  uint3 thread_index;
  uint3 cta_index;
  dim3 cta_size;
  dim3 grid_size;
};
extern constinit thread_local Builtins builtins;

}  // namespace kv::emulator

#define threadIdx (::kv::emulator::builtins.thread_index)
#define blockIdx (::kv::emulator::builtins.cta_index)
#define blockDim (::kv::emulator::builtins.cta_size)
#define gridDim (::kv::emulator::builtins.grid_size)
/// Lanes of a warp; __activemask() is left out: its value depends on the hardware.
inline constexpr int warpSize = 32;
