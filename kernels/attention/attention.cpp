#include "attention/attention.hpp"

#include <algorithm>
#include <string>

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
  }
  return "unknown";
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
  // Before 8.0 tensor cores know no bf16, and the registers do not suffice for head_dim 256.
  const int has = device.compute_capability();
  if (step != AttentionStep::tensor_core || has >= 80 ||
      (kv_dtype == DType::f16 && heads.head_dim <= 128))
    return;
  std::string message = "step 4 (tensor_core) in ";
  message += info(kv_dtype).name;
  message += " with head_dim " + std::to_string(heads.head_dim);
  message += " needs a GPU of compute capability 8.0; this one has " + std::to_string(has / 10);
  message.append(".").append(std::to_string(has % 10));
  throw InputError(message + ", which takes F16 up to head_dim 128; take another --step");
}

AttentionPlan::AttentionPlan(Device& device, AttentionStep step, const AttentionShape& shape,
                             std::span<const SequenceRows> sequences, const SplitOptions& split)
    : device_(&device), step_(step), sequences_(device, sequences) {
  shape.validate(step, device);
  require(!sequences.empty(), "a plan needs at least one sequence");
  launch_.shape = shape;
  launch_.sequences = sequences_.data();
  launch_.num_sequences = static_cast<int>(sequences.size());
  for (const SequenceRows& s : sequences) {
    require(s.q_begin >= 0 && s.kv_begin >= 0 && s.q_len >= 0 && s.kv_len >= 0,
            "the rows of a sequence cannot be negative");
    launch_.max_q_len = std::max(launch_.max_q_len, s.q_len);
    launch_.max_kv_len = std::max(launch_.max_kv_len, s.kv_len);
  }
  if (step == AttentionStep::two_pass) {
    scores_ = DeviceBuffer<float>(device, static_cast<std::size_t>(count_q_rows(sequences)) *
                                              shape.heads.num_q_heads * launch_.max_kv_len);
    launch_.scores = scores_.data();
  }
  if (step == AttentionStep::split_kv) {
    SplitOptions options = split;
    if (options.num_slots == 0)
      options.num_slots = kSlotsPerMultiprocessor * device.num_multiprocessors();
    split_plan_ = plan_split(shape.heads.num_q_heads, shape.causal, sequences, options);
    split_buffers_ = SplitBuffers(device, split_plan_, shape.heads.head_dim);
    launch_.split = split_buffers_.arrays();
  }
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
