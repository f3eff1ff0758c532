// What one sequence keeps between passes: the contract that every cache fulfils.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kv/dtype.hpp"

namespace kv {

/// Number formats of cached K and V on the CPU: fp32, fp16 or bf16.
using KvDType = DType;

/// Consecutive cached rows of one KV head. Row r of K starts `r * row_stride` elements after `k`
/// and holds head_dim elements; V likewise. K is stored after RoPE.
struct KvSpan {
  const std::byte* k = nullptr;  ///< first row of K, elements of `dtype`
  const std::byte* v = nullptr;  ///< first row of V
  std::int64_t num_rows = 0;     ///< tokens
  std::int64_t row_stride = 0;   ///< elements (not bytes) from one row to the next
  KvDType dtype = DType::f32;    ///< of the elements
};

/// The cached K and V of one sequence.
///
/// One pass is: for each layer append(rows), then read spans(); after the last layer commit(n).
/// `length()` counts committed tokens. A new token at position p = length() goes to slot p.
/// Between append and commit the spans of that layer already include the appended rows, because
/// the new tokens attend to themselves.
class SequenceState {
 public:
  virtual ~SequenceState() = default;

  /// Stores the new rows of this pass behind the committed ones.
  ///
  /// \param layer    layer index
  /// \param k_rows   [num_rows, num_kv_heads, head_dim], already rotated, packed
  /// \param v_rows   same shape and layout
  /// \param num_rows at most capacity() - length()
  /// \throws std::invalid_argument when they do not fit: callers ask capacity() first
  virtual void append(int layer, const float* k_rows, const float* v_rows,
                      std::int64_t num_rows) = 0;

  /// The rows of one KV head in order of position, committed and appended ones.
  /// \param layer   from 0
  /// \param kv_head from 0
  /// \throws std::invalid_argument when there is no such layer or head
  virtual std::vector<KvSpan> spans(int layer, int kv_head) const = 0;

  /// Makes the `num_tokens` rows that every layer has appended part of the sequence.
  /// \throws std::invalid_argument when a layer has appended another number of rows
  virtual void commit(std::int64_t num_tokens) = 0;

  virtual std::int64_t length() const = 0;        ///< committed tokens
  virtual std::int64_t capacity() const = 0;      ///< tokens that fit
  virtual std::int64_t bytes_held() const = 0;    ///< bytes allocated for K and V
  virtual std::int64_t bytes_in_use() const = 0;  ///< bytes of committed rows
};

}  // namespace kv
