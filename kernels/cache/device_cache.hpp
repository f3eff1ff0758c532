// The contiguous KV cache of chapter 2, in the memory of a device.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "device_buffer.hpp"
#include "kv/cache/sequence_state.hpp"
#include "kv/config.hpp"

namespace kv {

/// Rows of K and V of every layer on a device, each [num_rows, num_kv_heads, head_dim]. Caches
/// reserve ranges of rows; those that lie in the same memory can be read by one launch.
///
/// Invariants: reserved ranges do not overlap; rows that no cache has written are NaN.
class DeviceRows {
 public:
  /// \param device   who owns the memory; must outlive it
  /// \param config   the model's shape
  /// \param num_rows tokens of all caches together
  /// \param dtype    fp32, fp16 or bf16
  DeviceRows(Device& device, const ModelConfig& config, std::int64_t num_rows, KvDType dtype);

  /// Sets rows aside for good. \return the first of them
  /// \throws std::invalid_argument when fewer are left
  std::int64_t reserve(std::int64_t num_rows);

  /// Rounds rows to the format and writes them from row `first` on.
  /// \param layer  whose K and V
  /// \param first  row of the cache
  /// \param k_rows [count, num_kv_heads, head_dim] host
  /// \param v_rows same shape and layout as k_rows
  /// \param count  rows
  void write(int layer, std::int64_t first, const float* k_rows, const float* v_rows,
             std::int64_t count);
  /// Makes rows [first, first + count) of a layer NaN again.
  void erase(int layer, std::int64_t first, std::int64_t count);

  const std::byte* k(int layer) const { return k_[layer].data(); }  ///< the device's pointer
  const std::byte* v(int layer) const { return v_[layer].data(); }  ///< the device's pointer
  /// As given.
  const HeadConfig& heads() const { return heads_; }
  /// As given.
  int num_layers() const { return static_cast<int>(k_.size()); }
  /// As given.
  KvDType dtype() const { return dtype_; }
  std::int64_t row_bytes() const { return row_bytes_; }  ///< of K (or V) of one token in one layer

 private:
  std::vector<std::byte> stored(const float* rows, std::int64_t count) const;

  HeadConfig heads_;
  KvDType dtype_;
  std::int64_t row_bytes_;
  std::int64_t num_rows_;
  std::int64_t num_reserved_ = 0;
  // An array for each layer, so that the emulator sees who reads behind its end.
  std::vector<DeviceBuffer<std::byte>> k_, v_;  // [num_layers], of [num_rows, kv_heads, head_dim]
};

/// ContiguousCache with its rows on a device: the same contract, rounding, errors and bytes.
///
/// The pointers in spans() are the device's: only kernels may follow them, so a pass over this
/// state needs an Attention that runs there. Counts and strides are for everybody.
///
/// Invariants: 0 <= length() <= capacity(); every layer's rows [0, length()) are written; rows
/// behind them are NaN until they are written.
class DeviceCache final : public SequenceState {
 public:
  /// A cache in memory of its own.
  /// \param device   owns the memory; must outlive the cache
  /// \param config   layers and heads
  /// \param capacity tokens that it can take, reserved at once
  /// \param dtype    number format of K and V
  DeviceCache(Device& device, const ModelConfig& config, std::int64_t capacity,
              KvDType dtype = DType::f32);
  /// A cache of `capacity` tokens in `memory` that it shares with the other sequences of its batch.
  DeviceCache(std::shared_ptr<DeviceRows> memory, std::int64_t capacity);

  void append(int layer, const float* k_rows, const float* v_rows, std::int64_t num_rows) override;
  std::vector<KvSpan> spans(int layer, int kv_head) const override;
  void commit(std::int64_t num_tokens) override;
  std::int64_t length() const override { return length_; }
  std::int64_t capacity() const override { return capacity_; }
  std::int64_t bytes_held() const override;
  std::int64_t bytes_in_use() const override;

  /// Forgets every token after the first `num_tokens`; the rows become NaN again.
  void truncate(std::int64_t num_tokens);

  /// The rows that it shares with other sequences.
  const DeviceRows& memory() const { return *memory_; }
  std::int64_t first_row() const { return first_row_; }  ///< row of token 0 in memory()
  /// Rows that a layer holds, appended ones included.
  std::int64_t num_rows(int layer) const;

 private:
  std::shared_ptr<DeviceRows> memory_;
  std::int64_t capacity_ = 0;
  std::int64_t first_row_ = 0;
  std::int64_t length_ = 0;             // committed tokens
  std::vector<std::int64_t> appended_;  // per layer: rows written behind length_
};

}  // namespace kv
