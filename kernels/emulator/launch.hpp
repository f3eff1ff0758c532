// The emulator's side of a launch.
#pragma once

#include <cstddef>

#include "index.hpp"
#include "runtime_api.hpp"
#include "site.hpp"

namespace kv::emulator {

/// A launch with its types taken off.
struct LaunchRequest {
  const void* kernel = nullptr;
  Dim3 grid, cta_size;
  std::size_t shared_bytes = 0;
  bool checked = false;
  Site site;
  void (*entry)(const void* parameters) = nullptr;  ///< calls the kernel; run by each thread
  const void* parameters = nullptr;                 ///< a tuple of the kernel's arguments
  std::size_t parameter_bytes = 0;
};

/// Runs the kernel to its end. Errors are kept for cudaGetLastError() and last_launch().
void launch(const LaunchRequest& request);

/// Lets a kernel ask for more than 48 KiB of dynamic shared memory.
cudaError_t allow_shared(const void* kernel, std::size_t bytes);

}  // namespace kv::emulator
