// The roofline: how fast a step can be at best, and whether memory or arithmetic limits it.
//
// A step that does F operations on B bytes takes at least max(F / peak, B / bandwidth). F / B is
// its arithmetic intensity; below peak / bandwidth (the ridge) a step is bound by memory. Decode
// reads every weight and the whole cache to make one token a sequence, so with few sequences it
// lies far below the ridge of a GPU; prefill uses each weight for all tokens of the prompt and,
// when that is long, lies above it. Source: Williams, Waterman & Patterson 2009.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "kv/cost/kv_bytes.hpp"
#include "kv/cost/published.hpp"

namespace kv {

/// What limits a device.
struct Machine {
  std::string name;             ///< as listed
  double memory_bytes = 0;      ///< as the data sheet says, taken as GB = 10^9: a little is
                                ///< left for activations
  double bytes_per_second = 0;  ///< memory bandwidth
  double flops_per_second = 0;  ///< dense multiply-adds count 2: fp16/bf16 tensor cores; CPU: fp32
  std::string source;           ///< data sheet, or "measured"

  /// Operations a byte at which memory and arithmetic take the same time.
  double ridge() const { return flops_per_second / bytes_per_second; }
};

/// H100 SXM, H200, A100 80GB, RTX 4090 and T4. Peak rates without structured sparsity.
std::span<const Machine> published_devices();

/// \param name as listed, letter case, spaces and hyphens ignored; "h100", "a100", "4090" do
/// \throws InputError naming the devices that there are
const Machine& published_device(std::string_view name);

/// Reads memory and multiplies for about a second, on all threads of the team, and keeps the best
/// of many rounds: they are limits. The memory is read in one place and in several at once, and no
/// cache holds it (ColdMemory). The peak is that of fp32 multiply-adds in the instruction set of
/// this build.
Machine measure_this_machine();

/// What a step asks of a device.
struct StepCost {
  double flops = 0;         ///< operations, a multiply-add counted as 2
  double weight_bytes = 0;  ///< weights read
  double kv_bytes = 0;      ///< cache read (decode) or written (prefill)

  double bytes() const { return weight_bytes + kv_bytes; }  ///< moved in all
  double intensity() const { return flops / bytes(); }      ///< operations a byte
};

/// What a model is stored in and run at.
struct Workload {
  PublishedModel model;           ///< its shape and its active parameters
  KvFormat format;                ///< of the cache
  std::int64_t weight_bytes = 0;  ///< of all weights as stored
  std::int64_t context = 1;       ///< tokens of each sequence
  std::int64_t batch = 1;         ///< sequences
};

/// One new token for each sequence of the batch, the last of its context.
///
/// Each weight is read once for the whole batch, the cache of each sequence once. Counted are
/// 2 operations for each active parameter and each token, plus q.k and p.v; activations stay in
/// caches. MLA is counted in its absorbed form: each query head works on the latent itself.
StepCost decode_step(const Workload& workload);

/// The whole context of each sequence in one causal pass. Attention is fused, so scores never reach
/// memory; the output layer is counted for every token. MLA is counted with K and V of each head.
StepCost prefill_pass(const Workload& workload);

/// Where a step sits on a device's roofline.
struct RooflinePoint {
  double seconds = 0;           ///< at least so long
  double flops_per_second = 0;  ///< at most so fast
  bool memory_bound = true;     ///< the memory takes longer than the arithmetic
};

/// The least time that `cost` takes on `device`, and what sets it.
RooflinePoint place(const StepCost& cost, const Machine& device);

/// Sequences whose caches fit beside the weights; 0 when the weights alone do not.
///
/// \param device         its memory is what is shared out
/// \param weight_bytes   of the model, held once
/// \param sequence_bytes of one sequence's cache, at least 1
std::int64_t sequences_that_fit(const Machine& device, std::int64_t weight_bytes,
                                std::int64_t sequence_bytes);

}  // namespace kv
