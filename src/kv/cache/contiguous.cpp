#include "kv/cache/contiguous.hpp"

#include <algorithm>
#include <cstring>

#include "kv/cache/store_rows.hpp"
#include "kv/exercise.hpp"

namespace kv {

ContiguousCache::ContiguousCache(const ModelConfig& config, std::int64_t capacity, KvDType dtype)
    : heads_(config.heads),
      num_layers_(config.num_layers),
      capacity_(capacity),
      dtype_(dtype),
      row_bytes_(config.heads.kv_dim() * info(dtype).block_bytes),
      appended_(config.num_layers, 0) {
  require(capacity >= 0, "capacity must not be negative");
  require(dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16,
          "a contiguous cache holds fp32, fp16 or bf16");
  // All bits set is a NaN in all three formats.
  k_.assign(num_layers_ * capacity_ * row_bytes_, std::byte{0xff});
  v_.assign(num_layers_ * capacity_ * row_bytes_, std::byte{0xff});
}

std::byte* ContiguousCache::row(std::vector<std::byte>& buffer, int layer, std::int64_t slot) {
  return buffer.data() + (layer * capacity_ + slot) * row_bytes_;
}

//! [append rows]
KV_EXERCISE void ContiguousCache::append(int layer, const float* k_rows, const float* v_rows,
                                         std::int64_t num_rows) {
  require(layer >= 0 && layer < num_layers_, "layer out of range");
  const std::int64_t slot = length_ + appended_[layer];
  require(num_rows >= 0 && num_rows <= capacity_ - slot, "the rows must fit the cache");
  const std::int64_t count = num_rows * heads_.kv_dim();
  store_rows(k_rows, count, dtype_, row(k_, layer, slot));
  store_rows(v_rows, count, dtype_, row(v_, layer, slot));
  appended_[layer] += num_rows;
}
//! [append rows]

std::vector<KvSpan> ContiguousCache::spans(int layer, int kv_head) const {
  require(layer >= 0 && layer < num_layers_, "layer out of range");
  require(kv_head >= 0 && kv_head < heads_.num_kv_heads, "kv_head out of range");
  const std::int64_t offset =
      layer * capacity_ * row_bytes_ + kv_head * (row_bytes_ / heads_.num_kv_heads);
  return {{k_.data() + offset, v_.data() + offset, length_ + appended_[layer], heads_.kv_dim(),
           dtype_}};
}

void ContiguousCache::commit(std::int64_t num_tokens) {
  for (const std::int64_t rows : appended_)
    require(rows == num_tokens, "every layer must have appended the rows that are committed");
  std::fill(appended_.begin(), appended_.end(), 0);
  length_ += num_tokens;
}

std::int64_t ContiguousCache::bytes_held() const {
  return 2 * num_layers_ * capacity_ * row_bytes_;
}

std::int64_t ContiguousCache::bytes_in_use() const {
  return 2 * num_layers_ * length_ * row_bytes_;
}

void ContiguousCache::truncate(std::int64_t num_tokens) {
  require(num_tokens >= 0 && num_tokens <= length_, "cannot truncate to more than is held");
  for (int l = 0; l < num_layers_; ++l) {
    const std::int64_t stale_bytes = (length_ + appended_[l] - num_tokens) * row_bytes_;
    std::memset(row(k_, l, num_tokens), 0xff, stale_bytes);
    std::memset(row(v_, l, num_tokens), 0xff, stale_bytes);
    appended_[l] = 0;
  }
  length_ = num_tokens;
}

}  // namespace kv
