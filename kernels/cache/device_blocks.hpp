// The memory of a paged cache's blocks on a device.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "cache/block_kernels.hpp"
#include "device_buffer.hpp"
#include "kv/cache/block_storage.hpp"

namespace kv {

struct PagedPool;

/// K and V of every layer in the memory of a device, each [num_blocks, block_size, num_kv_heads,
/// head_dim]. Rows go in by write_slots.cu, copies are made by copy_blocks.cu.
///
/// Invariant: what no one has written is NaN.
class DeviceBlocks final : public BlockStorage {
 public:
  /// \param device who owns the memory; must outlive it
  /// \param shape  fp32, fp16 or bf16
  DeviceBlocks(Device& device, const BlockShape& shape);

  /// \throws std::invalid_argument, before anything is written, when a slot is neither -1 nor in
  ///         the pool, or is named twice
  void write(int layer, std::span<const Slot> slots, const float* k_rows,
             const float* v_rows) override;
  /// \throws std::invalid_argument when a block is outside the pool, when two copies have the same
  ///         target, or when one reads what another one writes
  void copy(std::span<const BlockCopy> copies) override;
  void erase(std::span<const BlockId> blocks) override;
  void erase_slots(std::span<const Slot> slots) override;

  const std::byte* k(int layer) const override { return buffer(k_, layer).data(); }
  /// Slot 0 of a layer's V: the device's pointer.
  const std::byte* v(int layer) const override { return buffer(v_, layer).data(); }
  /// Where the blocks lie.
  const Device& device() const { return *device_; }

 private:
  const DeviceBuffer<std::byte>& buffer(const std::vector<DeviceBuffer<std::byte>>& buffers,
                                        int layer) const;
  void erase_rows(Slot first, std::int64_t num_rows);

  Device* device_;
  // An array for each layer, so that the emulator sees who reads behind its end.
  std::vector<DeviceBuffer<std::byte>> k_, v_;  // [num_layers]
  DeviceBuffer<void*> arrays_;                  // k_ and v_, for copies
  DeviceBuffer<float> k_rows_, v_rows_;         // what write() brings over; grown as needed
  DeviceBuffer<Slot> slots_;
};

/// A pool in the memory of a device.
std::shared_ptr<PagedPool> make_device_pool(Device& device, const BlockShape& shape);

}  // namespace kv
