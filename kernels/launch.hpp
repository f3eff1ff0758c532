// Typed launches and their errors: one interface for nvcc and for the emulator.
//
// Included by kernel.cuh only. Host code that does not contain kernels sees device.hpp instead.
#pragma once

#include <cstddef>
#include <source_location>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>

#include "stream.hpp"
#ifndef __CUDACC__
#include "emulator/launch.hpp"
#endif

namespace kv::KV_BACKEND {

/// Throws when a call of the CUDA runtime, or the launch before it, failed.
///
/// \param error what the call returned; after a launch: cudaGetLastError()
/// \param what  the call, in words
/// \param where the caller, for the message
/// \throws std::runtime_error "file:line: what: text of the error"
inline void check_cuda(cudaError_t error, const char* what,
                       std::source_location where = std::source_location::current()) {
  if (error == cudaSuccess) return;
  throw std::runtime_error(std::string(where.file_name()) + ":" + std::to_string(where.line()) +
                           ": " + what + ": " + cudaGetErrorString(error));
}

/// The extents of a grid and the place of the launch that names them.
struct Grid {
  dim3 size;         ///< CTAs
  const char* file;  ///< of the launch
  int line;          ///< of the launch
  /// \param size_in a dim3 or the number of CTAs
  /// \param file_in the launch's file; the emulator's reports name it
  /// \param line_in the launch's line
  template <typename Size>
  Grid(const Size& size_in, const char* file_in = __builtin_FILE(), int line_in = __builtin_LINE())
      : size(static_cast<dim3>(size_in)), file(file_in), line(line_in) {}
};

#ifdef __CUDACC__

/// Queues a kernel on a stream; check with check_cuda(cudaGetLastError(), "...").
///
/// \param kernel       the kernel; name an instantiation of a template first
/// \param grid         CTAs
/// \param cta_size     threads of a CTA
/// \param shared_bytes dynamic shared memory; over 48 KiB only after allow_shared()
/// \param stream       null: the default stream
/// \param arguments    converted to the kernel's parameters
template <typename... Parameters, typename... Arguments>
void launch(void (*kernel)(Parameters...), Grid grid, dim3 cta_size, std::size_t shared_bytes,
            Stream stream, Arguments&&... arguments) {
  static_assert(sizeof...(Parameters) == sizeof...(Arguments), "one argument per parameter");
  kernel<<<grid.size, cta_size, shared_bytes, reinterpret_cast<cudaStream_t>(stream)>>>(
      static_cast<Parameters>(std::forward<Arguments>(arguments))...);
}

/// Lets a kernel ask for so many `bytes` of dynamic shared memory, more than 48 KiB.
template <typename... Parameters>
cudaError_t allow_shared(void (*kernel)(Parameters...), std::size_t bytes) {
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              static_cast<int>(bytes));
}

#else

/// Runs a kernel to its end on the CPU; the parameters are those of the GPU's launch(). Its CTAs
/// share the thread team: not to be called from inside kv::parallel().
template <typename... Parameters, typename... Arguments>
void launch(void (*kernel)(Parameters...), Grid grid, dim3 cta_size, std::size_t shared_bytes,
            [[maybe_unused]] Stream stream, Arguments&&... arguments) {
  static_assert(sizeof...(Parameters) == sizeof...(Arguments), "one argument per parameter");
  using Call = std::pair<void (*)(Parameters...), std::tuple<Parameters...>>;
  const Call call(kernel, std::tuple<Parameters...>(
                              static_cast<Parameters>(std::forward<Arguments>(arguments))...));
  emulator::LaunchRequest request;
  request.kernel = reinterpret_cast<const void*>(kernel);
  request.grid = grid.size;
  request.cta_size = cta_size;
  request.shared_bytes = shared_bytes;
#ifdef KV_EMULATOR_CHECKED
  request.checked = true;
#endif
  request.site = {grid.file, grid.line};
  request.entry = [](const void* parameters) {
    const auto& [function, values] = *static_cast<const Call*>(parameters);
    std::apply(function, values);
  };
  request.parameters = &call;
  request.parameter_bytes = sizeof(call);
  emulator::launch(request);
}

/// Lets a kernel ask for so many `bytes` of dynamic shared memory, more than 48 KiB.
template <typename... Parameters>
cudaError_t allow_shared(void (*kernel)(Parameters...), std::size_t bytes) {
  return emulator::allow_shared(reinterpret_cast<const void*>(kernel), bytes);
}

#endif

}  // namespace kv::KV_BACKEND
