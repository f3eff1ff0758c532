// The memory of the blocks, wherever it lies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kv/cache/block_allocator.hpp"
#include "kv/cache/sequence_state.hpp"
#include "kv/config.hpp"

namespace kv {

/// The shape of a pool's memory: K and of V each [num_layers] arrays of
/// [num_blocks, block_size, num_kv_heads, head_dim].
struct BlockShape {
  HeadConfig heads;             ///< KV heads and their width are read
  int num_layers = 0;           ///< layers
  BlockId num_blocks = 0;       ///< blocks
  std::int32_t block_size = 0;  ///< tokens of a block
  KvDType dtype = DType::f32;   ///< fp32, fp16 or bf16

  /// Bytes of K (or V) of one token in one layer.
  std::int64_t row_bytes() const { return heads.kv_dim() * info(dtype).block_bytes; }
  /// Bytes of K and V of one block in all layers.
  std::int64_t block_bytes() const { return 2 * num_layers * block_size * row_bytes(); }
};

/// K and V of all blocks. What no one has written is NaN.
class BlockStorage {
 public:
  /// Keeps the shape; who derives from it brings the memory.
  explicit BlockStorage(const BlockShape& shape) : shape_(shape) {}
  virtual ~BlockStorage() = default;
  BlockStorage(const BlockStorage&) = delete;
  BlockStorage& operator=(const BlockStorage&) = delete;

  /// Stores rows in slots, rounded to the format. A slot of -1 is padding: its row is dropped.
  ///
  /// \param layer  whose K and V
  /// \param slots  [num_rows] from BlockTable::slot()
  /// \param k_rows [num_rows, num_kv_heads, head_dim]
  /// \param v_rows same shape
  virtual void write(int layer, std::span<const Slot> slots, const float* k_rows,
                     const float* v_rows) = 0;
  /// Copies the beginnings of blocks, K and V, in every layer.
  virtual void copy(std::span<const BlockCopy> copies) = 0;
  /// Makes whole blocks NaN again.
  virtual void erase(std::span<const BlockId> blocks) = 0;
  /// Makes single slots NaN again.
  virtual void erase_slots(std::span<const Slot> slots) = 0;

  /// Slot 0 of a layer; on a device the device's pointer.
  virtual const std::byte* k(int layer) const = 0;
  /// The same for V.
  virtual const std::byte* v(int layer) const = 0;

  /// As given.
  const BlockShape& shape() const { return shape_; }
  /// Bytes of K and V of all blocks in all layers.
  std::int64_t bytes() const { return shape_.num_blocks * shape_.block_bytes(); }

 private:
  BlockShape shape_;
};

}  // namespace kv
