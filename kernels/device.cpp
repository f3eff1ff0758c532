#include "device.hpp"

#include <chrono>
#include <cstring>
#include <stdexcept>

#include "emulator/emulator.hpp"
#include "emulator/global_memory.hpp"
#include "kv/check.hpp"
#include "kv/fast/thread_team.hpp"

namespace kv {
namespace {

// The emulator is one device; its two builds differ in the kernels that are launched.
class EmulatedDevice final : public Device {
 public:
  explicit EmulatedDevice(Backend backend) : backend_(backend) {}

  Backend backend() const override { return backend_; }
  std::string description() const override {
    return std::string(backend_ == Backend::checked ? "checking emulator, " : "emulator, ") +
           std::to_string(num_threads()) + (num_threads() == 1 ? " thread" : " threads");
  }

  int num_multiprocessors() const override { return 4; }
  int compute_capability() const override { return 80; }

  void* allocate(std::size_t bytes, std::source_location where) override {
    void* memory =
        emulator::allocate_global(bytes, {where.file_name(), static_cast<int>(where.line())});
    if (!memory)
      throw OutOfDeviceMemory("no memory for " + std::to_string(bytes) +
                              " bytes of the emulated device");
    return memory;
  }
  void free(void* memory) noexcept override { emulator::free_global(memory); }

  void copy_from_host(void* device, const void* host, std::size_t bytes) override {
    if (bytes > 0) std::memcpy(device, host, bytes);
  }
  void copy_to_host(void* host, const void* device, std::size_t bytes) override {
    if (bytes > 0) std::memcpy(host, device, bytes);
  }
  void fill(void* device, int byte, std::size_t bytes) override {
    if (bytes > 0) std::memset(device, byte, bytes);
  }

  void synchronize() override {
    if (cudaGetLastError() != cudaSuccess)
      throw std::runtime_error(cudaGetErrorString(cudaErrorLaunchFailure));
  }
  Stream create_stream() override { return nullptr; }
  void destroy_stream(Stream) noexcept override {}

  double measure_ms(Stream, const std::function<void()>& work) override {
    const auto begin = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
        .count();
  }

 private:
  Backend backend_;
};

}  // namespace

std::string_view name(Backend backend) {
  switch (backend) {
    case Backend::cpu:
      return "cpu";
    case Backend::emulated:
      return "emulated";
    case Backend::checked:
      return "checked";
    case Backend::gpu:
      return "gpu";
  }
  return "unknown";
}

bool has_gpu() { return gpu_device() != nullptr; }

Backend choose_backend(std::string_view option) {
  if (option == "auto") return has_gpu() ? Backend::gpu : Backend::emulated;
  for (const Backend backend : {Backend::cpu, Backend::emulated, Backend::checked, Backend::gpu}) {
    if (option != name(backend)) continue;
    if (backend == Backend::gpu && !has_gpu())
      throw InputError(
          "--device gpu: there is no GPU that this program can use; take --device "
          "emulated, or auto");
    return backend;
  }
  throw InputError("--device " + std::string(option) +
                   ": unknown; take auto, gpu, emulated, checked or cpu");
}

Device& device(Backend backend) {
  static EmulatedDevice emulated(Backend::emulated);
  static EmulatedDevice checked(Backend::checked);
  require(backend != Backend::cpu, "the cpu backend runs no kernels and has no device");
  if (backend == Backend::emulated) return emulated;
  if (backend == Backend::checked) return checked;
  choose_backend("gpu");  // says why when there is none
  return *gpu_device();
}

}  // namespace kv
