// A GPU through the CUDA runtime. Built where the toolkit is installed; runs where a driver is.
#include <cuda_runtime.h>

#include <memory>
#include <stdexcept>

#include "device.hpp"

namespace kv {
namespace {

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  cudaGetLastError();  // told here: whoever asks after the next launch must not hear it again
  const std::string text = std::string(what) + ": " + cudaGetErrorString(error);
  if (error == cudaErrorMemoryAllocation) throw OutOfDeviceMemory(text);
  throw std::runtime_error(text);
}

cudaStream_t cuda(Stream stream) { return reinterpret_cast<cudaStream_t>(stream); }

// An event is given back whatever happens in between.
class Event {
 public:
  Event() { check(cudaEventCreate(&event_), "cudaEventCreate"); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

class GpuDevice final : public Device {
 public:
  Backend backend() const override { return Backend::gpu; }
  std::string description() const override {
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
    return properties.name;
  }

  int num_multiprocessors() const override {
    int count = 0;
    check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, 0),
          "cudaDeviceGetAttribute");
    return count;
  }

  int compute_capability() const override {
    int major = 0, minor = 0;
    check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0),
          "cudaDeviceGetAttribute");
    check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0),
          "cudaDeviceGetAttribute");
    return 10 * major + minor;
  }

  void* allocate(std::size_t bytes, std::source_location where) override {
    void* memory = nullptr;
    const std::string what = std::string(where.file_name()) + ":" + std::to_string(where.line()) +
                             ": cudaMalloc of " + std::to_string(bytes) + " bytes";
    check(cudaMalloc(&memory, bytes == 0 ? 1 : bytes), what.c_str());
    return memory;
  }
  void free(void* memory) noexcept override { cudaFree(memory); }

  void copy_from_host(void* device, const void* host, std::size_t bytes) override {
    check(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice), "cudaMemcpy to the device");
  }
  void copy_to_host(void* host, const void* device, std::size_t bytes) override {
    check(cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy to the host");
  }
  void fill(void* device, int byte, std::size_t bytes) override {
    check(cudaMemset(device, byte, bytes), "cudaMemset");
  }

  void synchronize() override { check(cudaDeviceSynchronize(), "cudaDeviceSynchronize"); }
  Stream create_stream() override {
    cudaStream_t stream = nullptr;
    check(cudaStreamCreate(&stream), "cudaStreamCreate");
    return reinterpret_cast<Stream>(stream);
  }
  void destroy_stream(Stream stream) noexcept override { cudaStreamDestroy(cuda(stream)); }

  double measure_ms(Stream stream, const std::function<void()>& work) override {
    const Event begin, end;
    check(cudaEventRecord(begin.get(), cuda(stream)), "cudaEventRecord");
    work();
    check(cudaEventRecord(end.get(), cuda(stream)), "cudaEventRecord");
    check(cudaEventSynchronize(end.get()), "cudaEventSynchronize");
    float ms = 0.0f;
    check(cudaEventElapsedTime(&ms, begin.get(), end.get()), "cudaEventElapsedTime");
    return ms;
  }
};

// A toolkit without a driver, a driver without a device: whatever the error, there is no GPU.
std::unique_ptr<Device> find_gpu() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
    cudaGetLastError();  // not an error of anybody else
    return nullptr;
  }
  return std::make_unique<GpuDevice>();
}

}  // namespace

Device* gpu_device() {
  static const std::unique_ptr<Device> gpu = find_gpu();
  return gpu.get();
}

}  // namespace kv
