// What a paged cache does on a device besides attention: rows into slots, blocks into blocks. Plain
// C++, no CUDA header.
#pragma once

#include <cstdint>

#include "kv/dtype.hpp"
#include "stream.hpp"

namespace kv {

/// Rows of fp32 into their slots, rounded to the format of the cache. All pointers are the
/// device's.
struct WriteSlots {
  const float* k_rows = nullptr;        ///< [num_rows, row_elements], 16-byte aligned
  const float* v_rows = nullptr;        ///< same
  const std::int64_t* slots = nullptr;  ///< [num_rows]: block * block_size + place; -1: dropped
  void* k = nullptr;                    ///< [num_slots, row_elements], 16-byte aligned, written
  void* v = nullptr;                    ///< same
  std::int64_t num_rows = 0;            ///< rows to write
  int row_elements = 0;                 ///< num_kv_heads * head_dim
  DType dtype = DType::f32;             ///< of k and v: f32, f16 or bf16
  Stream stream = nullptr;              ///< where the kernel is queued
};

/// A copy of the first rows of a block: what BlockCopy says, in bytes.
struct CopyRange {
  std::int64_t from = 0;       ///< first byte in each array
  std::int64_t to = 0;         ///< first byte in each array
  std::int64_t num_bytes = 0;  ///< length
};

/// The same ranges of many arrays: K and V of every layer. All pointers are the device's.
struct CopyBlocks {
  void* const* arrays = nullptr;      ///< [num_arrays], each 16-byte aligned
  const CopyRange* ranges = nullptr;  ///< [num_ranges]: no byte is read that another one writes
  int num_arrays = 0;                 ///< K and V of each layer
  int num_ranges = 0;                 ///< in each array
  /// Of every offset and length: 16, or 2 where rows are no multiple of 16 bytes.
  int alignment = 2;
  Stream stream = nullptr;  ///< where the kernel is queued
};

// The host entries of each build: write_slots.cu and copy_blocks.cu.
namespace emulated {
/// Queues the kernel of the fast emulator.
void launch_write_slots(const WriteSlots& launch);
/// Queues the kernel of the fast emulator.
void launch_copy_blocks(const CopyBlocks& launch);
}  // namespace emulated
namespace checked {
/// Queues the kernel of the checking emulator.
void launch_write_slots(const WriteSlots& launch);
/// Queues the kernel of the checking emulator.
void launch_copy_blocks(const CopyBlocks& launch);
}  // namespace checked
namespace gpu {
/// Queues the kernel of the GPU.
void launch_write_slots(const WriteSlots& launch);
/// Queues the kernel of the GPU.
void launch_copy_blocks(const CopyBlocks& launch);
}  // namespace gpu

}  // namespace kv
