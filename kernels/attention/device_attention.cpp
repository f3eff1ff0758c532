#include "attention/device_attention.hpp"

#include <algorithm>
#include <utility>

#include "attention/traffic.hpp"

namespace kv {

namespace {

bool same_rows(const SequenceRows& a, const SequenceRows& b) {
  return a.q_begin == b.q_begin && a.kv_begin == b.kv_begin && a.q_len == b.q_len &&
         a.kv_len == b.kv_len;
}

const DeviceCache& device_cache(const AttentionItem& item) {
  const auto* cache = dynamic_cast<const DeviceCache*>(item.state);
  require(cache != nullptr, "attention on a device reads DeviceCaches");
  return *cache;
}

}  // namespace

AttentionSteps attention_steps(int step, KvDType dtype) {
  if (step > 0) return {AttentionStep{step}, AttentionStep{step}};
  AttentionSteps steps;
  if (dtype != DType::f32) steps.prefill = AttentionStep::tensor_core;
  return steps;
}

DeviceAttention::DeviceAttention(Device& device, const HeadConfig& heads, KvDType dtype,
                                 AttentionSteps steps)
    : device_(&device),
      heads_(heads),
      dtype_(dtype),
      prefill_{steps.prefill, {}, 0.0f, {}, 0},
      decode_{steps.decode, {}, 0.0f, {}, 0} {
  const AttentionShape shape{heads, dtype, 1.0f, true};
  for (const AttentionStep step : {steps.prefill, steps.decode}) shape.validate(step);
}

void DeviceAttention::plan(Part& part, std::vector<SequenceRows> rows, float scale) {
  if (std::ranges::equal(rows, part.rows, same_rows) && scale == part.scale) return;
  part.plan.reset();
  part.kv_bytes = 0;
  if (!rows.empty()) {
    const AttentionShape shape{heads_, dtype_, scale, true};
    part.plan.emplace(*device_, part.step, shape, rows);
    const AttentionTraffic traffic =
        predicted_traffic(part.step, shape, rows, false, part.plan->split_plan());
    part.kv_bytes = traffic.k + traffic.v;
  }
  part.rows = std::move(rows);
  part.scale = scale;
}

void DeviceAttention::upload(std::span<const AttentionItem> items) {
  host_q_.clear();
  lse_is_wanted_ = false;
  for (const AttentionItem& item : items) {
    for (std::int64_t t = 0; t < item.q_len; ++t)
      host_q_.insert(host_q_.end(), item.q + t * item.q_stride,
                     item.q + t * item.q_stride + heads_.q_dim());
    lse_is_wanted_ = lse_is_wanted_ || item.lse != nullptr;
  }
  if (q_.size() != host_q_.size()) {
    q_ = DeviceBuffer<float>(*device_, host_q_.size());
    out_ = DeviceBuffer<float>(*device_, host_q_.size());
    lse_ = DeviceBuffer<float>(*device_, host_q_.size() / heads_.head_dim);
  }
  q_.copy_from(host_q_);
}

void DeviceAttention::download(std::span<const AttentionItem> items) const {
  const std::vector<float> out = out_.to_host();
  const std::vector<float> lse = lse_is_wanted_ ? lse_.to_host() : std::vector<float>();
  std::int64_t first = 0;  // row
  for (const AttentionItem& item : items) {
    std::copy_n(out.begin() + first * heads_.q_dim(), item.q_len * heads_.q_dim(), item.out);
    if (item.lse != nullptr)
      std::copy_n(lse.begin() + first * heads_.num_q_heads, item.q_len * heads_.num_q_heads,
                  item.lse);
    first += item.q_len;
  }
}

void DeviceAttention::operator()(std::span<const AttentionItem> items, const HeadConfig& heads,
                                 int layer, float scale) {
  require(heads.num_q_heads == heads_.num_q_heads && heads.num_kv_heads == heads_.num_kv_heads &&
              heads.head_dim == heads_.head_dim,
          "the heads must be those that the kernels were chosen for");
  if (items.empty()) return;
  const DeviceRows& memory = device_cache(items[0]).memory();
  std::vector<SequenceRows> prefill, decode;
  std::int64_t q_begin = 0;
  for (const AttentionItem& item : items) {
    const DeviceCache& cache = device_cache(item);
    require(&cache.memory() == &memory && memory.dtype() == dtype_,
            "the caches of a pass must lie in one memory, in the format that was announced");
    (item.q_len == 1 ? decode : prefill)
        .push_back({q_begin, cache.first_row(), static_cast<int>(item.q_len),
                    static_cast<int>(cache.num_rows(layer))});
    q_begin += item.q_len;
  }
  plan(prefill_, std::move(prefill), scale);
  plan(decode_, std::move(decode), scale);
  upload(items);
  for (const Part* part : {&prefill_, &decode_})
    if (part->plan) {
      part->plan->run(q_.data(), memory.k(layer), memory.v(layer), out_.data(),
                      lse_is_wanted_ ? lse_.data() : nullptr);
      kv_bytes_read_ += part->kv_bytes;
    }
  download(items);
}

}  // namespace kv
