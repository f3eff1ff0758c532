// What a device can do at best, and how the arrays of the benchmark are filled: the host's side of
// limits.cu.
#pragma once

#include <cstdint>

#include "attention/attention.hpp"
#include "device.hpp"

namespace kv_bench {

/// Element `index` of an array: 256 values in [-2, 2), all exact in 16 bit, so that host and device
/// agree on them bit by bit. Not zeros: a GPU multiplies those faster than real data.
///
/// \param seed tells arrays apart
KV_HD inline float bench_value(std::uint32_t seed, std::uint64_t index) {
  // Two rounds of multiply and fold: neighbours and seeds have nothing to do with each other.
  std::uint64_t x = (index + seed * 0x9e3779b97f4a7c15ull) * 0xd6e8feb86659fd93ull;
  x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ull;
  return static_cast<float>(static_cast<int>((x >> 40) & 255) - 128) / 64.0f;
}

/// Threads of a CTA of the kernels here.
inline constexpr int kLimitThreads = 256;

/// Bytes that a thread of the copying kernel has under way at once.
inline constexpr int kCopyBytesPerThread = 64;

/// Products of a warp of multiply() that do not wait for each other: left operands times right
/// ones, as many as hide the latency of mma with 8 warps on each of the 4 schedulers of a
/// multiprocessor.
inline constexpr int kLeftOperands = 2;
inline constexpr int kRightOperands = 4;

/// Multiply-adds of one call of multiply(), each counted as 2 operations.
constexpr double multiply_flops(int num_ctas, int rounds) {
  return double{kLimitThreads / 32} * num_ctas * rounds * kLeftOperands * kRightOperands * 2 * 16 *
         8 * 16;  // m16n8k16
}

/// The host entries of one build of limits.cu. All pointers are the device's; all calls are queued.
struct LimitKernels {
  /// Sets elements [0, count) to bench_value(seed, index). \param dtype f32, f16 or bf16
  void (*fill)(void* to, std::int64_t count, kv::DType dtype, std::uint32_t seed,
               kv::Stream stream);
  /// Copies in a kernel. \param bytes a multiple of kLimitThreads * kCopyBytesPerThread
  void (*copy)(void* to, const void* from, std::int64_t bytes, kv::Stream stream);
  /// The same by the copy of the CUDA runtime.
  void (*runtime_copy)(void* to, const void* from, std::int64_t bytes, kv::Stream stream);
  /// Multiplies matrices that stay in registers with mma.sync, the instruction of the ladder; each
  /// thread writes one number, so that nothing is left out.
  ///
  /// \param dtype f16 or bf16
  /// \param out   [num_ctas * kLimitThreads], written
  void (*multiply)(float* out, kv::DType dtype, int num_ctas, int rounds, kv::Stream stream);
};

/// \throws std::invalid_argument when this program has no kernels for the device
const LimitKernels& limit_kernels(kv::Backend backend);

}  // namespace kv_bench

namespace kv {
namespace emulated {
const kv_bench::LimitKernels& limit_kernels();
}
namespace checked {
const kv_bench::LimitKernels& limit_kernels();
}
namespace gpu {
const kv_bench::LimitKernels& limit_kernels();
}
}  // namespace kv
