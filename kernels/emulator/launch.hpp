// The emulator's side of a launch.
#pragma once

#include <cstddef>

#include "index.hpp"
#include "runtime_api.hpp"
#include "site.hpp"

namespace kv::emulator {

/// A launch with its types taken off.
struct LaunchRequest {
  const void* kernel = nullptr;  ///< its address, for the name
  Dim3 grid;                     ///< CTAs
  Dim3 cta_size;                 ///< threads of a CTA
  std::size_t shared_bytes = 0;  ///< dynamic shared memory
  bool checked = false;          ///< the kernel was compiled with the memory callbacks
  Site site;                     ///< of the launch
  void (*entry)(const void* parameters) = nullptr;  ///< calls the kernel; run by each thread
  const void* parameters = nullptr;                 ///< a tuple of the kernel's arguments
  std::size_t parameter_bytes = 0;                  ///< size of the tuple
};

/// Runs the kernel to its end. Errors are kept for cudaGetLastError() and last_launch().
void launch(const LaunchRequest& request);

/// Lets a kernel ask for more than 48 KiB of dynamic shared memory.
cudaError_t allow_shared(const void* kernel, std::size_t bytes);

}  // namespace kv::emulator
