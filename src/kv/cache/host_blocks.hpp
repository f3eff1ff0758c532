// The memory of the blocks, in the memory of the host.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kv/cache/block_storage.hpp"

namespace kv {

/// K and V of every layer as [num_blocks, block_size, num_kv_heads, head_dim], a layer after the
/// other.
class HostBlocks final : public BlockStorage {
 public:
  /// \throws std::invalid_argument on a shape that cannot be, or another format than fp32, fp16,
  /// bf16
  explicit HostBlocks(const BlockShape& shape);

  void write(int layer, std::span<const Slot> slots, const float* k_rows,
             const float* v_rows) override;
  void copy(std::span<const BlockCopy> copies) override;
  void erase(std::span<const BlockId> blocks) override;
  void erase_slots(std::span<const Slot> slots) override;
  const std::byte* k(int layer) const override { return k_.data() + offset(layer, 0); }
  /// Slot 0 of a layer's V.
  const std::byte* v(int layer) const override { return v_.data() + offset(layer, 0); }

 private:
  std::size_t offset(int layer, Slot slot) const;  // bytes before a slot
  void erase_rows(Slot first, std::int64_t num_rows);

  std::vector<std::byte> k_;  // [num_layers, num_blocks, block_size, num_kv_heads, head_dim]
  std::vector<std::byte> v_;  // same
};

}  // namespace kv
