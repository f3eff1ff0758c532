// A sequence state whose rows lie scattered in memory, for tests of attention over spans.
#pragma once

#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "kv/cache/sequence_state.hpp"
#include "kv/check.hpp"
#include "kv/config.hpp"

namespace kv_test {

/// One layer of K and V cut into spans of given lengths and formats. Each span has a buffer of its
/// own and a row stride of its own; every element that belongs to no row is NaN. `k` and `v` are
/// the same numbers as [kv_len, num_kv_heads, head_dim] floats, after rounding to the formats.
class SpanState final : public kv::SequenceState {
 public:
  /// What one span looks like.
  struct Cut {
    std::int64_t num_rows = 0;
    kv::DType dtype = kv::DType::f32;
    std::int64_t gap = 0;  ///< NaN elements behind each row
  };

  /// \param k_rows [kv_len, num_kv_heads, head_dim], rounded to the spans' formats
  /// \param v_rows same
  /// \param cuts   spans in order; their rows add up to kv_len
  SpanState(const kv::HeadConfig& heads, std::vector<float> k_rows, std::vector<float> v_rows,
            const std::vector<Cut>& cuts)
      : k(std::move(k_rows)), v(std::move(v_rows)), heads_(heads) {
    for (const Cut& cut : cuts) {
      buffers_.push_back({cut, fill(cut, k), fill(cut, v)});
      length_ += cut.num_rows;
    }
    kv::require(length_ * heads.kv_dim() == static_cast<std::int64_t>(k.size()), "cuts = rows");
  }

  std::vector<kv::KvSpan> spans(int, int kv_head) const override {
    std::vector<kv::KvSpan> result;
    for (const Buffer& b : buffers_) {
      if (b.cut.num_rows == 0) {  // there is nothing to point at
        result.push_back({nullptr, nullptr, 0, heads_.kv_dim(), b.cut.dtype});
        continue;
      }
      const std::int64_t offset =
          kv_head * heads_.head_dim * std::int64_t{kv::info(b.cut.dtype).block_bytes};
      result.push_back({b.k.data() + offset, b.v.data() + offset, b.cut.num_rows,
                        heads_.kv_dim() + b.cut.gap, b.cut.dtype});
    }
    return result;
  }
  void append(int, const float*, const float*, std::int64_t) override {}
  void commit(std::int64_t) override {}
  std::int64_t length() const override { return length_; }
  std::int64_t capacity() const override { return length_; }
  std::int64_t bytes_held() const override { return 0; }
  std::int64_t bytes_in_use() const override { return 0; }

  std::vector<float> k;
  std::vector<float> v;

 private:
  struct Buffer {
    Cut cut;
    std::vector<std::byte> k, v;
  };

  // The span's rows from length_ on, as bytes; `values` become what was really stored. The buffer
  // ends with its last row: the address sanitizer sees every byte read too far.
  std::vector<std::byte> fill(const Cut& cut, std::vector<float>& values) const {
    const std::int64_t size = kv::info(cut.dtype).block_bytes, row = heads_.kv_dim();
    std::vector<std::byte> bytes(cut.num_rows * (row + cut.gap) * size, std::byte{0xff});  // NaN
    for (std::int64_t r = 0; r < cut.num_rows; ++r) {
      for (std::int64_t i = 0; i < row; ++i) {
        float& x = values[(length_ + r) * row + i];
        const auto put = [&](auto stored) {
          std::memcpy(&bytes[(r * (row + cut.gap) + i) * size], &stored, sizeof stored);
          x = kv::to_float(stored);
        };
        if (cut.dtype == kv::DType::f32) put(x);
        if (cut.dtype == kv::DType::f16) put(kv::to_f16(x));
        if (cut.dtype == kv::DType::bf16) put(kv::to_bf16(x));
      }
    }
    return bytes;
  }

  kv::HeadConfig heads_;
  std::int64_t length_ = 0;
  std::vector<Buffer> buffers_;
};

/// `count` normal numbers.
inline std::vector<float> normals(std::int64_t count, std::mt19937& random, float scale = 1.0f) {
  std::normal_distribution<float> normal(0.0f, scale);
  std::vector<float> values(count);
  for (float& x : values) x = normal(random);
  return values;
}

}  // namespace kv_test
