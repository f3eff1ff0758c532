#include "kv/cost/roofline.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "kv/check.hpp"

namespace kv {
namespace {

// NVIDIA's data sheets print tensor rates with 2:4 sparsity for H100 and H200 (1,979): half of it
// is dense. RTX 4090: 165.2 with fp32 accumulation, which language models use (330.3 with fp16).
const Machine kDevices[] = {
    {"H100 SXM", 80e9, 3.35e12, 989.4e12, "NVIDIA H100 data sheet (SXM5, 80 GB HBM3)"},
    {"H200", 141e9, 4.8e12, 989.4e12, "NVIDIA H200 data sheet (SXM, 141 GB HBM3e)"},
    {"A100 80GB", 80e9, 2.039e12, 312e12, "NVIDIA A100 data sheet (SXM4, 80 GB HBM2e)"},
    {"RTX 4090", 24e9, 1.008e12, 165.2e12, "NVIDIA Ada GPU architecture white paper, appendix A"},
    {"T4", 16e9, 0.32e12, 65e12, "NVIDIA T4 data sheet (fp16; it has no bf16)"},
};

std::string plain(std::string_view name) {
  std::string out;
  for (const char c : name)
    if (std::isalnum(static_cast<unsigned char>(c)))
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

// Keys seen by the newest token, summed over the layers.
double keys_seen(const KvShape& shape, double context) {
  double keys = 0;
  for (int layer = 0; layer < shape.num_layers; ++layer) {
    const int window = shape.window(layer);
    keys += window > 0 ? std::min(context, static_cast<double>(window)) : context;
  }
  return keys;
}

// (query, key) pairs of a causal pass, summed over the layers.
double pairs_seen(const KvShape& shape, double context) {
  double pairs = 0;
  for (int layer = 0; layer < shape.num_layers; ++layer) {
    const double window = shape.window(layer) > 0 ? shape.window(layer) : context;
    const double w = std::min(window, context);
    pairs += w * (w + 1) / 2 + (context - w) * w;
  }
  return pairs;
}

double weights_read(const Workload& w, double num_tokens) {
  const auto tokens = static_cast<std::int64_t>(std::min(num_tokens, 1e15));
  return static_cast<double>(w.weight_bytes) * w.model.params_read(tokens) /
         static_cast<double>(w.model.params);
}

}  // namespace

std::span<const Machine> published_devices() { return kDevices; }

const Machine& published_device(std::string_view name) {
  const std::string wanted = plain(name);
  std::string known;
  for (const Machine& device : kDevices) {
    const std::string full = plain(device.name);
    const bool part = full.starts_with(wanted) || full.ends_with(wanted);
    if (wanted.size() >= 2 && part) return device;
    known += (known.empty() ? "" : ", ") + device.name;
  }
  throw InputError("unknown GPU '" + std::string(name) + "'; there are " + known);
}

StepCost decode_step(const Workload& w) {
  const KvShape& shape = w.model.kv;
  const double batch = static_cast<double>(w.batch);
  // q.k and p.v are a multiply-add for each element and key.
  const double elements =
      shape.latent() ? 2.0 * shape.kv_lora_rank + shape.qk_rope_head_dim : 2.0 * shape.head_dim;
  const double attention =
      2 * elements * w.model.num_q_heads * keys_seen(shape, static_cast<double>(w.context));
  StepCost cost;
  cost.flops = batch * (2 * static_cast<double>(w.model.active_params) + attention);
  cost.weight_bytes = weights_read(w, batch);
  cost.kv_bytes = static_cast<double>(kv_bytes(shape, w.format, w.context, w.batch).total());
  return cost;
}

StepCost prefill_pass(const Workload& w) {
  const KvShape& shape = w.model.kv;
  const double batch = static_cast<double>(w.batch), context = static_cast<double>(w.context);
  const double elements = 2.0 * shape.head_dim + shape.qk_rope_head_dim;
  const double attention = 2 * elements * w.model.num_q_heads * pairs_seen(shape, context);
  StepCost cost;
  cost.flops = batch * (2 * static_cast<double>(w.model.active_params) * context + attention);
  cost.weight_bytes = weights_read(w, batch * context);
  cost.kv_bytes = static_cast<double>(kv_bytes(shape, w.format, w.context, w.batch).total());
  return cost;
}

RooflinePoint place(const StepCost& cost, const Machine& device) {
  const double arithmetic = cost.flops / device.flops_per_second;
  const double memory = cost.bytes() / device.bytes_per_second;
  RooflinePoint point;
  point.seconds = std::max(arithmetic, memory);
  point.flops_per_second = cost.flops / point.seconds;
  point.memory_bound = memory >= arithmetic;
  return point;
}

std::int64_t sequences_that_fit(const Machine& device, std::int64_t weight_bytes,
                                std::int64_t sequence_bytes) {
  require(sequence_bytes >= 1, "a sequence takes at least a byte");
  const double left = device.memory_bytes - static_cast<double>(weight_bytes);
  return left <= 0 ? 0 : static_cast<std::int64_t>(left) / sequence_bytes;
}

}  // namespace kv
