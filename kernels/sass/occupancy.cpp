// Source: CUDA C++ Programming Guide, "Compute Capabilities", the table of technical
// specifications; the toolkit's cuda_occupancy.h does the arithmetic.
#include "sass/occupancy.hpp"

#include <cuda_occupancy.h>

#include <string>

#include "kv/check.hpp"

namespace kv::sass {
namespace {

constexpr int kKibi = 1024;
constexpr int kMaxThreadsPerCta = 1024;
constexpr int kRegistersPerSm = 64 * kKibi;
constexpr int kSharedWithoutAsking = 48 * kKibi;  // more only after allow_shared()

struct Limits {
  int architecture;
  int threads_per_sm;
  int shared_kib_per_sm;
  int shared_kib_per_cta;
  int reserved_bytes_per_cta;  // taken by the system
};
constexpr Limits kLimits[] = {
    {75, 1024, 64, 64, 0},       {80, 2048, 164, 163, kKibi}, {86, 1536, 100, 99, kKibi},
    {89, 1536, 100, 99, kKibi},  {90, 2048, 228, 227, kKibi}, {100, 2048, 228, 227, kKibi},
    {120, 1536, 100, 99, kKibi},
};

const Limits& limits_of(int architecture) {
  for (const Limits& limits : kLimits)
    if (limits.architecture == architecture) return limits;
  throw InputError("sm_" + std::to_string(architecture) +
                   ": its limits are not in kernels/sass/occupancy.cpp; add them");
}

cudaOccDeviceProp properties_of(const Limits& limits) {
  cudaOccDeviceProp properties;
  properties.computeMajor = limits.architecture / 10;
  properties.computeMinor = limits.architecture % 10;
  properties.maxThreadsPerBlock = kMaxThreadsPerCta;
  properties.maxThreadsPerMultiprocessor = limits.threads_per_sm;
  properties.regsPerBlock = kRegistersPerSm;
  properties.regsPerMultiprocessor = kRegistersPerSm;
  properties.warpSize = 32;
  properties.sharedMemPerBlock = kSharedWithoutAsking;
  properties.sharedMemPerMultiprocessor = static_cast<size_t>(limits.shared_kib_per_sm) * kKibi;
  properties.numSms = 1;  // the answer is for one
  properties.sharedMemPerBlockOptin = static_cast<size_t>(limits.shared_kib_per_cta) * kKibi;
  properties.reservedSharedMemPerBlock = static_cast<size_t>(limits.reserved_bytes_per_cta);
  return properties;
}

}  // namespace

int resident_ctas(int architecture, const CtaNeeds& needs) {
  const cudaOccDeviceProp properties = properties_of(limits_of(architecture));
  cudaOccFuncAttributes attributes;
  attributes.maxThreadsPerBlock = kMaxThreadsPerCta;
  attributes.numRegs = needs.registers_per_thread;
  attributes.sharedSizeBytes = static_cast<size_t>(needs.static_shared_bytes);
  attributes.partitionedGCConfig = PARTITIONED_GC_OFF;
  attributes.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
  attributes.maxDynamicSharedSizeBytes = static_cast<size_t>(needs.dynamic_shared_bytes);
  attributes.numBlockBarriers = 1;
  const cudaOccDeviceState state;  // the split of shared memory and cache follows the kernel's need
  cudaOccResult result;
  const cudaOccError error = cudaOccMaxActiveBlocksPerMultiprocessor(
      &result, &properties, &attributes, &state, needs.threads,
      static_cast<size_t>(needs.dynamic_shared_bytes));
  if (error != CUDA_OCC_SUCCESS)
    throw InputError("cuda_occupancy.h: error " + std::to_string(error) + " for sm_" +
                     std::to_string(architecture) + "; is the toolkit too old for it?");
  return result.activeBlocksPerMultiprocessor;
}

int max_threads_per_sm(int architecture) { return limits_of(architecture).threads_per_sm; }

}  // namespace kv::sass
