#include "attention/attention.hpp"

#include <algorithm>
#include <string>

#include "attention/tile_shape.hpp"

namespace kv {

namespace {

const AttentionKernels& kernels_of(Backend backend) {
#ifdef KV_HAVE_GPU_KERNELS
  if (backend == Backend::gpu) return gpu::attention_kernels();
#endif
  require(backend != Backend::cpu && backend != Backend::gpu,
          "this program has no kernels for the device");
  return backend == Backend::checked ? checked::attention_kernels() : emulated::attention_kernels();
}

std::int64_t count_q_rows(std::span<const SequenceRows> sequences) {
  std::int64_t end = 0;
  for (const SequenceRows& s : sequences) end = std::max(end, s.q_begin + s.q_len);
  return end;
}

}  // namespace

std::string_view name(AttentionStep step) {
  switch (step) {
    case AttentionStep::two_pass:
      return "two_pass";
    case AttentionStep::online:
      return "online";
    case AttentionStep::tiled:
      return "tiled";
    case AttentionStep::tensor_core:
      return "tensor_core";
    case AttentionStep::split_kv:
      return "split_kv";
    case AttentionStep::grouped:
      return "grouped";
    case AttentionStep::paged:
      return "paged";
  }
  return "unknown";
}

bool rounds_products(AttentionStep step, DType kv_dtype) {
  if (kv_dtype == DType::f32) return false;
  return step == AttentionStep::tensor_core || step == AttentionStep::grouped ||
         step == AttentionStep::paged;
}

void AttentionShape::validate(AttentionStep step) const {
  heads.validate();
  if (std::ranges::find(kHeadDims, heads.head_dim) == std::end(kHeadDims)) {
    std::string known;
    for (const int head_dim : kHeadDims) known.append(" ").append(std::to_string(head_dim));
    throw InputError("head_dim " + std::to_string(heads.head_dim) +
                     ": there is no kernel for it, only for" + known +
                     "; take another model, or --device cpu");
  }
  const bool is_16_bit = kv_dtype == DType::f16 || kv_dtype == DType::bf16;
  if (!is_16_bit && kv_dtype != DType::f32)
    throw InputError("K and V in " + std::string(info(kv_dtype).name) +
                     ": the kernels read F32, F16 and BF16");
  if (step == AttentionStep::tensor_core && !is_16_bit)
    throw InputError(
        "step 4 (tensor_core) multiplies 16-bit numbers; give --kv-dtype fp16 or bf16, or take "
        "another --step");
}

void AttentionShape::validate(AttentionStep step, const Device& device) const {
  validate(step);
  // Before 8.0 tensor cores know no bf16, and the registers do not suffice for step 4 at head_dim
  // 256.
  const int has = device.compute_capability();
  const bool is_tensor_core = step == AttentionStep::tensor_core;
  const bool is_grouped = step == AttentionStep::grouped || step == AttentionStep::paged;
  if ((!is_tensor_core && !is_grouped) || has >= 80) return;
  if (kv_dtype != DType::bf16 && (!is_tensor_core || heads.head_dim <= 128)) return;
  std::string message = "step " + std::to_string(static_cast<int>(step)) + " (";
  message.append(name(step)).append(") in ").append(info(kv_dtype).name);
  message += " with head_dim " + std::to_string(heads.head_dim);
  message += " needs a GPU of compute capability 8.0; this one has " + std::to_string(has / 10);
  message.append(".").append(std::to_string(has % 10));
  throw InputError(
      message +
      (is_tensor_core ? ", which takes F16 up to head_dim 128" : ", which takes F32 and F16") +
      "; take another --step");
}

void BatchTables::validate(std::span<const SequenceRows> sequences) const {
  require(block_size > 0 && (block_size & (block_size - 1)) == 0,
          "the blocks of a device hold a power of two of tokens");
  require(max_blocks >= 0 &&
              std::ssize(block_ids) == max_blocks * static_cast<std::int64_t>(sequences.size()),
          "block_ids is [num_sequences, max_blocks]");
  for (std::size_t b = 0; b < sequences.size(); ++b) {
    if (sequences[b].q_len == 0) continue;  // nobody looks
    const std::int64_t needed = (std::int64_t{sequences[b].kv_len} + block_size - 1) / block_size;
    require(needed <= max_blocks, "a sequence has more keys than its table has blocks for");
    const auto ids = block_ids.subspan(b * static_cast<std::size_t>(max_blocks));
    for (std::int64_t i = 0; i < needed; ++i)
      require(ids[i] >= 0 && ids[i] < num_blocks,
              "a block that a sequence needs is missing in its table, or outside the pool");
  }
}

AttentionPlan::AttentionPlan(Device& device, AttentionStep step, const AttentionShape& shape,
                             std::span<const SequenceRows> sequences, const SplitOptions& split)
    : device_(&device), step_(step), sequences_(device, sequences) {
  require(step != AttentionStep::paged, "step 7 (paged) needs block tables");
  shape.validate(step, device);
  launch_.shape = shape;
  measure(sequences);
  if (step == AttentionStep::two_pass) {
    scores_ = DeviceBuffer<float>(device, static_cast<std::size_t>(count_q_rows(sequences)) *
                                              shape.heads.num_q_heads * launch_.max_kv_len);
    launch_.scores = scores_.data();
  }
  if (step == AttentionStep::split_kv || step == AttentionStep::grouped)
    split_keys(sequences, split);
}

AttentionPlan::AttentionPlan(Device& device, const AttentionShape& shape,
                             std::span<const SequenceRows> sequences, const BatchTables& tables,
                             const SplitOptions& split)
    : device_(&device), step_(AttentionStep::paged) {
  shape.validate(step_, device);
  tables.validate(sequences);
  launch_.shape = shape;
  std::vector<SequenceRows> all(sequences.begin(), sequences.end());
  for (std::size_t b = 0; b < all.size(); ++b)
    all[b].kv_begin = static_cast<std::int64_t>(b) * tables.max_blocks;
  sequences_ = DeviceBuffer<SequenceRows>(device, std::span<const SequenceRows>(all));
  measure(all);

  std::vector<SequenceRows> decode = all, prefill;
  for (SequenceRows& rows : decode)
    if (rows.q_len > 1) {
      prefill.push_back(rows);
      rows.q_len = 0;
    }
  split_keys(decode, split);
  prefill_ = DeviceBuffer<SequenceRows>(device, std::span<const SequenceRows>(prefill));
  launch_.prefill = prefill_.data();
  launch_.num_prefill = static_cast<int>(prefill.size());
  block_ids_ = DeviceBuffer<std::int32_t>(device, tables.block_ids);
  launch_.tables = {block_ids_.data(), tables.block_size};
}

// What all sequences of a launch come to.
void AttentionPlan::measure(std::span<const SequenceRows> sequences) {
  require(!sequences.empty(), "a plan needs at least one sequence");
  launch_.sequences = sequences_.data();
  launch_.num_sequences = static_cast<int>(sequences.size());
  for (const SequenceRows& s : sequences) {
    require(s.q_begin >= 0 && s.kv_begin >= 0 && s.q_len >= 0 && s.kv_len >= 0,
            "the rows of a sequence cannot be negative");
    launch_.max_q_len = std::max(launch_.max_q_len, s.q_len);
    launch_.max_kv_len = std::max(launch_.max_kv_len, s.kv_len);
  }
}

// Shares out the keys of every query row.
void AttentionPlan::split_keys(std::span<const SequenceRows> sequences, const SplitOptions& split) {
  SplitOptions options = split;
  if (options.num_slots == 0)
    options.num_slots = kSlotsPerMultiprocessor * device_->num_multiprocessors();
  const HeadConfig& heads = launch_.shape.heads;
  const int heads_per_item =
      step_ == AttentionStep::split_kv ? 1 : grouped_heads(heads.group_size(), heads.head_dim);
  split_plan_ =
      plan_split(heads.num_q_heads / heads_per_item, launch_.shape.causal, sequences, options);
  split_buffers_ = SplitBuffers(*device_, split_plan_, heads.head_dim, heads_per_item);
  launch_.split = split_buffers_.arrays();
}

void AttentionPlan::run(const float* q, const void* k, const void* v, float* out, float* lse,
                        Stream stream) const {
  if (launch_.max_q_len == 0) return;  // nobody asks; a grid may not be empty
  AttentionLaunch launch = launch_;
  launch.q = q;
  launch.k = k;
  launch.v = v;
  launch.out = out;
  launch.lse = lse;
  launch.stream = stream;
  kernels_of(device_->backend()).launch[static_cast<int>(step_) - 1](launch);
}

std::int64_t AttentionPlan::workspace_bytes() const {
  return static_cast<std::int64_t>(sizeof(float)) *
         static_cast<std::int64_t>(scores_.size() + split_buffers_.out.size() +
                                   split_buffers_.lse.size());
}

}  // namespace kv
