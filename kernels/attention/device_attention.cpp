#include "attention/device_attention.hpp"

#include <algorithm>
#include <utility>

#include "attention/traffic.hpp"
#include "cache/device_blocks.hpp"
#include "kv/cache/paged.hpp"

namespace kv {

namespace {

bool same_rows(const SequenceRows& a, const SequenceRows& b) {
  return a.q_begin == b.q_begin && a.kv_begin == b.kv_begin && a.q_len == b.q_len &&
         a.kv_len == b.kv_len;
}

const DeviceCache& device_cache(const AttentionItem& item) {
  const auto* cache = dynamic_cast<const DeviceCache*>(item.state);
  require(cache != nullptr, "this attention on a device reads DeviceCaches");
  return *cache;
}

const PagedCache& paged_cache(const AttentionItem& item) {
  const auto* cache = dynamic_cast<const PagedCache*>(item.state);
  require(cache != nullptr, "paged attention on a device reads PagedCaches");
  return *cache;
}

const DeviceBlocks& device_blocks(const PagedCache& cache) {
  const auto* blocks = dynamic_cast<const DeviceBlocks*>(cache.pool().storage.get());
  require(blocks != nullptr, "paged attention on a device reads blocks that lie there");
  return *blocks;
}

}  // namespace

AttentionSteps attention_steps(int step, KvDType dtype, AttentionStep decode) {
  if (step > 0) return {AttentionStep{step}, AttentionStep{step}};
  AttentionSteps steps;
  steps.decode = decode;
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
  require((steps.prefill == AttentionStep::paged) == (steps.decode == AttentionStep::paged),
          "paged caches are read by step 7 alone, and others never");
  const AttentionShape shape{heads, dtype, 1.0f, true};
  for (const AttentionStep step : {steps.prefill, steps.decode}) shape.validate(step);
}

void DeviceAttention::plan(Part& part, Batch batch, float scale) {
  if (std::ranges::equal(batch.rows, part.batch.rows, same_rows) &&
      batch.block_ids == part.batch.block_ids && scale == part.scale)
    return;
  part.plan.reset();
  part.kv_bytes = 0;
  if (!batch.rows.empty()) {
    const AttentionShape shape{heads_, dtype_, scale, true};
    BatchTables tables = batch.tables;
    tables.block_ids = batch.block_ids;
    if (part.step == AttentionStep::paged)
      part.plan.emplace(*device_, shape, batch.rows, tables);
    else
      part.plan.emplace(*device_, part.step, shape, batch.rows);
    const AttentionTraffic traffic =
        predicted_traffic(part.step, shape, batch.rows, false, part.plan->split_plan());
    part.kv_bytes = traffic.k + traffic.v;
  }
  part.batch = std::move(batch);
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

DeviceAttention::Memory DeviceAttention::gather_contiguous(std::span<const AttentionItem> items,
                                                           int layer) const {
  const DeviceRows& rows = device_cache(items[0]).memory();
  Memory memory{rows.k(layer), rows.v(layer), {}, {}};
  std::int64_t q_begin = 0;
  for (const AttentionItem& item : items) {
    const DeviceCache& cache = device_cache(item);
    require(&cache.memory() == &rows && rows.dtype() == dtype_,
            "the caches of a pass must lie in one memory, in the format that was announced");
    (item.q_len == 1 ? memory.decode : memory.prefill)
        .rows.push_back({q_begin, cache.first_row(), static_cast<int>(item.q_len),
                         static_cast<int>(cache.num_rows(layer))});
    q_begin += item.q_len;
  }
  return memory;
}

// All sequences are one batch: step 7 itself tells prefill and decode apart.
DeviceAttention::Memory DeviceAttention::gather_paged(std::span<const AttentionItem> items,
                                                      int layer) const {
  const DeviceBlocks& blocks = device_blocks(paged_cache(items[0]));
  require(&blocks.device() == device_ && blocks.shape().dtype == dtype_,
          "the blocks must lie on the device of the kernels, in the format that was announced");
  Memory memory{blocks.k(layer), blocks.v(layer), {}, {}};
  std::vector<const BlockTable*> tables;
  std::int64_t q_begin = 0;
  for (const AttentionItem& item : items) {
    const PagedCache& cache = paged_cache(item);
    require(&device_blocks(cache) == &blocks, "the sequences of a pass must share one pool");
    tables.push_back(&cache.table());
    memory.prefill.rows.push_back(
        {q_begin, 0, static_cast<int>(item.q_len), static_cast<int>(cache.num_rows(layer))});
    q_begin += item.q_len;
  }
  PackedTables packed = pack_tables(tables);
  memory.prefill.block_ids = std::move(packed.ids);
  memory.prefill.tables = {
      {}, packed.max_blocks, blocks.shape().block_size, blocks.shape().num_blocks};
  return memory;
}

void DeviceAttention::operator()(std::span<const AttentionItem> items, const HeadConfig& heads,
                                 int layer, float scale) {
  require(heads.num_q_heads == heads_.num_q_heads && heads.num_kv_heads == heads_.num_kv_heads &&
              heads.head_dim == heads_.head_dim,
          "the heads must be those that the kernels were chosen for");
  if (items.empty()) return;
  Memory memory = prefill_.step == AttentionStep::paged ? gather_paged(items, layer)
                                                        : gather_contiguous(items, layer);
  plan(prefill_, std::move(memory.prefill), scale);
  plan(decode_, std::move(memory.decode), scale);
  upload(items);
  for (const Part* part : {&prefill_, &decode_})
    if (part->plan) {
      part->plan->run(q_.data(), memory.k, memory.v, out_.data(),
                      lse_is_wanted_ ? lse_.data() : nullptr);
      kv_bytes_read_ += part->kv_bytes;
    }
  download(items);
}

}  // namespace kv
