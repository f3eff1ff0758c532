#include "kv/cache/host_blocks.hpp"

#include <cstring>

#include "kv/cache/store_rows.hpp"
#include "kv/check.hpp"

namespace kv {

namespace {

constexpr std::byte kNan{0xff};  // all bits set is a NaN in all three formats

const BlockShape& checked(const BlockShape& shape) {
  shape.heads.validate();
  require(shape.num_layers > 0, "a pool needs at least one layer");
  require(shape.num_blocks >= 0, "the number of blocks must not be negative");
  require(shape.block_size > 0, "a block must hold at least one token");
  require(shape.dtype == DType::f32 || shape.dtype == DType::f16 || shape.dtype == DType::bf16,
          "blocks hold fp32, fp16 or bf16");
  return shape;
}

}  // namespace

HostBlocks::HostBlocks(const BlockShape& shape) : BlockStorage(checked(shape)) {
  k_.assign(static_cast<std::size_t>(bytes() / 2), kNan);
  v_.assign(static_cast<std::size_t>(bytes() / 2), kNan);
}

// offset = ((layer * num_blocks * block_size) + slot) * row_bytes, all in 64 bits
std::size_t HostBlocks::offset(int layer, Slot slot) const {
  const std::int64_t layer_slots = std::int64_t{shape().num_blocks} * shape().block_size;
  return static_cast<std::size_t>((layer * layer_slots + slot) * shape().row_bytes());
}

//! [write]
void HostBlocks::write(int layer, std::span<const Slot> slots, const float* k_rows,
                       const float* v_rows) {
  require(layer >= 0 && layer < shape().num_layers, "layer out of range");
  const std::int64_t num_slots = std::int64_t{shape().num_blocks} * shape().block_size;
  for (const Slot slot : slots)
    require(slot >= -1 && slot < num_slots, "a slot must lie in the pool, or be -1 for padding");
  const std::int64_t row = shape().heads.kv_dim();
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (slots[i] == -1) continue;
    const std::int64_t from = static_cast<std::int64_t>(i) * row;
    store_rows(k_rows + from, row, shape().dtype, k_.data() + offset(layer, slots[i]));
    store_rows(v_rows + from, row, shape().dtype, v_.data() + offset(layer, slots[i]));
  }
}
//! [write]

//! [copy]
void HostBlocks::copy(std::span<const BlockCopy> copies) {
  for (const BlockCopy& copy : copies) {
    require(copy.from >= 0 && copy.from < shape().num_blocks && copy.to >= 0 &&
                copy.to < shape().num_blocks && copy.from != copy.to,
            "a copy needs two blocks of the pool");
    require(copy.num_tokens >= 0 && copy.num_tokens <= shape().block_size,
            "a block holds no more tokens than its size");
    const auto num_bytes = static_cast<std::size_t>(copy.num_tokens * shape().row_bytes());
    for (int l = 0; l < shape().num_layers; ++l)
      for (auto* memory : {&k_, &v_})
        std::memcpy(memory->data() + offset(l, Slot{copy.to} * shape().block_size),
                    memory->data() + offset(l, Slot{copy.from} * shape().block_size), num_bytes);
  }
}
//! [copy]

void HostBlocks::erase_rows(Slot first, std::int64_t num_rows) {
  const std::int64_t num_slots = std::int64_t{shape().num_blocks} * shape().block_size;
  require(first >= 0 && first + num_rows <= num_slots, "a slot must lie in the pool");
  const auto num_bytes = static_cast<std::size_t>(num_rows * shape().row_bytes());
  for (int l = 0; l < shape().num_layers; ++l)
    for (auto* memory : {&k_, &v_})
      std::memset(memory->data() + offset(l, first), std::to_integer<int>(kNan), num_bytes);
}

void HostBlocks::erase(std::span<const BlockId> blocks) {
  for (const BlockId block : blocks)
    erase_rows(Slot{block} * shape().block_size, shape().block_size);
}

void HostBlocks::erase_slots(std::span<const Slot> slots) {
  for (const Slot slot : slots) erase_rows(slot, 1);
}

}  // namespace kv
