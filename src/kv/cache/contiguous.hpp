// The contiguous KV cache: one row a token, all of them reserved in advance.
#pragma once

#include <cstddef>
#include <vector>

#include "kv/cache/sequence_state.hpp"
#include "kv/config.hpp"

namespace kv {

/// K and V of every layer as [capacity, num_kv_heads, head_dim], rows [0, length()) valid.
///
/// Invariants: 0 <= length() <= capacity(); every layer's rows [0, length()) are written; rows
/// behind them are NaN until they are written, so that reading too far is seen.
class ContiguousCache final : public SequenceState {
 public:
  /// \param config   the model's shape
  /// \param capacity tokens to reserve room for
  /// \param dtype    fp32, fp16 or bf16; narrower formats round to nearest even
  ContiguousCache(const ModelConfig& config, std::int64_t capacity, KvDType dtype = DType::f32);

  // spans() first: the class's table of virtual functions is where the first of them is defined,
  // and append() is an exercise.
  std::vector<KvSpan> spans(int layer, int kv_head) const override;
  void append(int layer, const float* k_rows, const float* v_rows, std::int64_t num_rows) override;
  void commit(std::int64_t num_tokens) override;
  std::int64_t length() const override { return length_; }
  std::int64_t capacity() const override { return capacity_; }
  std::int64_t bytes_held() const override;
  std::int64_t bytes_in_use() const override;

  /// Forgets every token after the first `num_tokens`; the rows become NaN again.
  void truncate(std::int64_t num_tokens);

 private:
  std::byte* row(std::vector<std::byte>& buffer, int layer, std::int64_t slot);

  HeadConfig heads_;
  int num_layers_ = 0;
  std::int64_t capacity_ = 0;
  KvDType dtype_ = DType::f32;
  std::int64_t row_bytes_ = 0;          // of K (or V) of one token in one layer
  std::int64_t length_ = 0;             // committed tokens
  std::vector<std::int64_t> appended_;  // per layer: rows written behind length_
  std::vector<std::byte> k_;            // [num_layers, capacity, num_kv_heads, head_dim]
  std::vector<std::byte> v_;            // same
};

}  // namespace kv
