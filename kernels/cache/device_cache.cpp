#include "cache/device_cache.hpp"

#include <algorithm>
#include <utility>

#include "kv/cache/store_rows.hpp"

namespace kv {

namespace {

constexpr int kNanByte = 0xff;  // all bits set is a NaN in all three formats

std::shared_ptr<DeviceRows> memory_for(Device& device, const ModelConfig& config,
                                       std::int64_t capacity, KvDType dtype) {
  require(capacity >= 0, "capacity must not be negative");
  return std::make_shared<DeviceRows>(device, config, capacity, dtype);
}

}  // namespace

DeviceRows::DeviceRows(Device& device, const ModelConfig& config, std::int64_t num_rows,
                       KvDType dtype)
    : heads_(config.heads),
      dtype_(dtype),
      row_bytes_(config.heads.kv_dim() * info(dtype).block_bytes),
      num_rows_(num_rows) {
  require(num_rows >= 0, "the number of rows must not be negative");
  require(dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16,
          "a device cache holds fp32, fp16 or bf16");
  for (int l = 0; l < config.num_layers; ++l)
    for (auto* buffers : {&k_, &v_}) {
      buffers->emplace_back(device, static_cast<std::size_t>(num_rows * row_bytes_));
      buffers->back().fill_bytes(kNanByte);
    }
}

std::int64_t DeviceRows::reserve(std::int64_t num_rows) {
  require(num_rows >= 0 && num_rows <= num_rows_ - num_reserved_,
          "the rows of a cache must fit the memory that it shares");
  return std::exchange(num_reserved_, num_reserved_ + num_rows);
}

std::vector<std::byte> DeviceRows::stored(const float* rows, std::int64_t count) const {
  std::vector<std::byte> bytes(static_cast<std::size_t>(count * row_bytes_));
  store_rows(rows, count * heads_.kv_dim(), dtype_, bytes.data());
  return bytes;
}

void DeviceRows::write(int layer, std::int64_t first, const float* k_rows, const float* v_rows,
                       std::int64_t count) {
  const auto offset = static_cast<std::size_t>(first * row_bytes_);
  k_[layer].copy_into(offset, stored(k_rows, count));
  v_[layer].copy_into(offset, stored(v_rows, count));
}

void DeviceRows::erase(int layer, std::int64_t first, std::int64_t count) {
  for (auto* buffers : {&k_, &v_})
    (*buffers)[layer].fill_bytes(kNanByte, static_cast<std::size_t>(first * row_bytes_),
                                 static_cast<std::size_t>(count * row_bytes_));
}

DeviceCache::DeviceCache(Device& device, const ModelConfig& config, std::int64_t capacity,
                         KvDType dtype)
    : DeviceCache(memory_for(device, config, capacity, dtype), capacity) {}

DeviceCache::DeviceCache(std::shared_ptr<DeviceRows> memory, std::int64_t capacity)
    : memory_(std::move(memory)),
      capacity_(capacity),
      first_row_(memory_->reserve(capacity)),
      appended_(memory_->num_layers(), 0) {}

std::int64_t DeviceCache::num_rows(int layer) const {
  require(layer >= 0 && layer < memory_->num_layers(), "layer out of range");
  return length_ + appended_[layer];
}

void DeviceCache::append(int layer, const float* k_rows, const float* v_rows,
                         std::int64_t num_rows) {
  const std::int64_t slot = this->num_rows(layer);
  require(num_rows >= 0 && num_rows <= capacity_ - slot, "the rows must fit the cache");
  memory_->write(layer, first_row_ + slot, k_rows, v_rows, num_rows);
  appended_[layer] += num_rows;
}

std::vector<KvSpan> DeviceCache::spans(int layer, int kv_head) const {
  const std::int64_t rows = num_rows(layer);
  const HeadConfig& heads = memory_->heads();
  require(kv_head >= 0 && kv_head < heads.num_kv_heads, "kv_head out of range");
  const std::int64_t offset =
      first_row_ * memory_->row_bytes() + kv_head * (memory_->row_bytes() / heads.num_kv_heads);
  return {{memory_->k(layer) + offset, memory_->v(layer) + offset, rows, heads.kv_dim(),
           memory_->dtype()}};
}

void DeviceCache::commit(std::int64_t num_tokens) {
  for (const std::int64_t rows : appended_)
    require(rows == num_tokens, "every layer must have appended the rows that are committed");
  std::fill(appended_.begin(), appended_.end(), 0);
  length_ += num_tokens;
}

std::int64_t DeviceCache::bytes_held() const {
  return 2 * memory_->num_layers() * capacity_ * memory_->row_bytes();
}

std::int64_t DeviceCache::bytes_in_use() const {
  return 2 * memory_->num_layers() * length_ * memory_->row_bytes();
}

void DeviceCache::truncate(std::int64_t num_tokens) {
  require(num_tokens >= 0 && num_tokens <= length_, "cannot truncate to more than is held");
  for (int l = 0; l < memory_->num_layers(); ++l) {
    memory_->erase(l, first_row_ + num_tokens, num_rows(l) - num_tokens);
    appended_[l] = 0;
  }
  length_ = num_tokens;
}

}  // namespace kv
