// Where kernels run, chosen at run time: on a GPU, or in the emulator. No CUDA header is seen here.
#pragma once

#include <cstddef>
#include <functional>
#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>

#include "stream.hpp"

namespace kv {

/// What runs the attention of a program.
enum class Backend {
  cpu,       ///< the host code of src/kv: no kernels at all
  emulated,  ///< kernels on the CPU
  checked,   ///< the same with every memory access checked and counted, several times slower
  gpu,       ///< kernels on a GPU
};

/// \return "cpu", "emulated", "checked" or "gpu"
std::string_view name(Backend backend);

/// \return whether a GPU can be used: the program was built with the toolkit, and the driver
///         reports a device. Any error of the driver means no.
bool has_gpu();

/// Chooses by what the user asked for (--device).
///
/// \param option auto (a GPU where there is one, else emulated), gpu, emulated, checked or cpu
/// \throws InputError when the option is unknown, or gpu and there is none
Backend choose_backend(std::string_view option);

/// The device has no memory left for an allocation; it goes on working.
class OutOfDeviceMemory : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Memory and time of a device that runs kernels.
class Device {
 public:
  virtual ~Device() = default;

  /// Who runs the kernels.
  virtual Backend backend() const = 0;
  /// For the report: e.g. "NVIDIA H200", "emulator, 16 threads".
  virtual std::string description() const = 0;
  /// How many CTAs run side by side is a multiple of this. The emulator pretends to have 4: enough
  /// that decode is split, few enough that small tests fill them.
  virtual int num_multiprocessors() const = 0;
  /// 10 * major + minor of the GPU: which instructions it has. The emulator has those of 80.
  virtual int compute_capability() const = 0;

  /// \param bytes of the memory that is asked for
  /// \param where the caller, for messages about this memory
  /// \return memory of the device; never null, and at least 256-byte aligned
  /// \throws OutOfDeviceMemory when there is none left
  virtual void* allocate(std::size_t bytes, std::source_location where) = 0;
  /// \param memory from allocate(), or null
  virtual void free(void* memory) noexcept = 0;

  /// Copies wait for all work of the default stream, and are finished on return.
  /// \param device destination
  /// \param host   source
  /// \param bytes  any number
  virtual void copy_from_host(void* device, const void* host, std::size_t bytes) = 0;
  /// The other way; also finished on return.
  /// \param host   destination
  /// \param device source
  /// \param bytes  any number
  virtual void copy_to_host(void* host, const void* device, std::size_t bytes) = 0;
  /// Sets `bytes` bytes of the `device` to `byte`.
  virtual void fill(void* device, int byte, std::size_t bytes) = 0;

  /// Waits for all streams. \throws std::runtime_error when a kernel has failed
  virtual void synchronize() = 0;
  /// A stream beside the default one.
  virtual Stream create_stream() = 0;
  /// \param stream from create_stream(), with nothing queued on it
  virtual void destroy_stream(Stream stream) noexcept = 0;

  /// Milliseconds that the work queued by `work` takes on `stream`: events on a GPU, the clock of
  /// the host in the emulator (which says nothing of a GPU's time).
  virtual double measure_ms(Stream stream, const std::function<void()>& work) = 0;
};

/// The device of a backend, made at the first use.
/// \throws std::invalid_argument for cpu; InputError for gpu where there is none
Device& device(Backend backend);

/// The GPU, or null where there is none: in gpu_device.cpp or no_gpu_device.cpp.
Device* gpu_device();

}  // namespace kv
