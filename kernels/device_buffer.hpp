// Memory of a device that frees itself.
#pragma once

#include <source_location>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "device.hpp"
#include "kv/check.hpp"

namespace kv {

/// An array of `T` in the memory of a device. Move-only; in the emulator it starts as NaN.
template <typename T>
class DeviceBuffer {
  static_assert(std::is_trivially_copyable_v<T>, "device memory is copied as bytes");

 public:
  DeviceBuffer() = default;

  /// \param device who owns the memory; must outlive the buffer
  /// \param size   elements
  /// \param where  the caller, for the emulator's messages about this memory
  DeviceBuffer(Device& device, std::size_t size,
               std::source_location where = std::source_location::current())
      : device_(&device),
        data_(static_cast<T*>(device.allocate(size * sizeof(T), where))),
        size_(size) {}

  /// Allocates and fills with a copy of `values`; `where` is the caller.
  DeviceBuffer(Device& device, std::span<const T> values,
               std::source_location where = std::source_location::current())
      : DeviceBuffer(device, values.size(), where) {
    copy_from(values);
  }

  ~DeviceBuffer() {
    if (data_) device_->free(data_);
  }
  /// Takes over the memory; the other one is empty afterwards.
  DeviceBuffer(DeviceBuffer&& other) noexcept { swap(other); }
  /// Frees its own memory first.
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    DeviceBuffer(std::move(other)).swap(*this);
    return *this;
  }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  /// The device's pointer: for kernels, never for the host.
  T* data() { return data_; }
  /// The same, for reading.
  const T* data() const { return data_; }
  /// Elements.
  std::size_t size() const { return size_; }

  /// \param values exactly size() elements
  void copy_from(std::span<const T> values) {
    require(values.size() == size_, "values must have as many elements as the buffer");
    if (size_ > 0) device_->copy_from_host(data_, values.data(), size_ * sizeof(T));
  }

  /// Writes elements [first, first + values.size()).
  void copy_into(std::size_t first, std::span<const T> values) {
    require(first <= size_ && values.size() <= size_ - first, "values must fit behind `first`");
    if (!values.empty()) device_->copy_from_host(data_ + first, values.data(), values.size_bytes());
  }

  /// A copy in the host's memory; waits for the default stream.
  std::vector<T> to_host() const {
    std::vector<T> values(size_);
    if (size_ > 0) device_->copy_to_host(values.data(), data_, size_ * sizeof(T));
    return values;
  }

  /// Sets every byte: 0xff makes NaN of every floating-point format.
  void fill_bytes(int byte) { fill_bytes(byte, 0, size_); }

  /// Sets every byte of elements [first, first + count) to `byte`.
  void fill_bytes(int byte, std::size_t first, std::size_t count) {
    require(first <= size_ && count <= size_ - first, "the elements must lie in the buffer");
    if (count > 0) device_->fill(data_ + first, byte, count * sizeof(T));
  }

 private:
  void swap(DeviceBuffer& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }

  Device* device_ = nullptr;
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace kv
