// A device that says it is an old GPU, for kernels that must refuse one.
#pragma once

#include "device.hpp"

namespace kv_test {

/// A GPU before 8.0, of which only its number matters.
class OldDevice final : public kv::Device {
 public:
  kv::Backend backend() const override { return under_.backend(); }
  std::string description() const override { return "old"; }
  int num_multiprocessors() const override { return under_.num_multiprocessors(); }
  int compute_capability() const override { return 75; }
  void* allocate(std::size_t bytes, std::source_location where) override {
    return under_.allocate(bytes, where);
  }
  void free(void* memory) noexcept override { under_.free(memory); }
  void copy_from_host(void* to, const void* from, std::size_t bytes) override {
    under_.copy_from_host(to, from, bytes);
  }
  void copy_to_host(void* to, const void* from, std::size_t bytes) override {
    under_.copy_to_host(to, from, bytes);
  }
  void fill(void* memory, int byte, std::size_t bytes) override {
    under_.fill(memory, byte, bytes);
  }
  void synchronize() override { under_.synchronize(); }
  kv::Stream create_stream() override { return under_.create_stream(); }
  void destroy_stream(kv::Stream stream) noexcept override { under_.destroy_stream(stream); }
  double measure_ms(kv::Stream stream, const std::function<void()>& work) override {
    return under_.measure_ms(stream, work);
  }

 private:
  kv::Device& under_ = kv::device(kv::Backend::emulated);
};

}  // namespace kv_test
