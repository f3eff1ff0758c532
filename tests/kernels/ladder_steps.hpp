// Which steps of the ladder the tests run, and what each may be asked.
#pragma once

#include <vector>

#include "attention_problem.hpp"

namespace kv_test {

/// A step under test.
struct StepUnderTest {
  kv::AttentionStep step;
  bool reads_f32;  ///< has a kernel for fp32 K and V
  /// Keys that a row does not see are not even multiplied by 0.
  bool leaves_masked_keys_out;
  bool in_base_2;            ///< scores times log2(e), which are rounded once more
  Looseness looseness_f16;   ///< of the bound of fp32 arithmetic, K and V in fp16
  Looseness looseness_bf16;  ///< the same, in bf16

  Looseness looseness(kv::DType dtype) const {
    if (dtype == kv::DType::f16) return looseness_f16;
    return dtype == kv::DType::bf16 ? looseness_bf16 : Looseness{};
  }
};

/// Steps 4 and 6 round q and the weights to nearest: by half a unit in the last of 11 or 8 binary
/// digits. fp16 is denormal below 2^-14, where half a unit is 2^-25; weights are at most 1.
inline constexpr Looseness kRoundedToF16 = {1.0, 1.0, 0x1p-11, 0x1p-11, 0x1p-25};
inline constexpr Looseness kRoundedToBf16 = {1.0, 1.0, 0x1p-8, 0x1p-8, 0.0};

/// The steps in order, without step 5, which has tests of its own. K and V in 16 bits are exact in
/// fp32, so fp32 arithmetic needs no more room.
inline constexpr StepUnderTest kSteps[] = {
    {kv::AttentionStep::two_pass, true, true, false, {}, {}},
    {kv::AttentionStep::online, true, true, false, {}, {}},
    {kv::AttentionStep::tiled, true, true, false, {}, {}},
    {kv::AttentionStep::tensor_core, false, false, true, kRoundedToF16, kRoundedToBf16},
    {kv::AttentionStep::grouped, true, true, true, kRoundedToF16, kRoundedToBf16},
};

inline constexpr kv::DType kFormats[] = {kv::DType::f32, kv::DType::f16, kv::DType::bf16};

/// Calls body(step, format) for every step and every format that it reads.
template <typename Body>
void for_each_step(const Body& body) {
  for (const StepUnderTest& step : kSteps)
    for (const kv::DType dtype : kFormats) {
      if (dtype == kv::DType::f32 && !step.reads_f32) continue;
      INFO("step " << static_cast<int>(step.step) << " " << kv::name(step.step) << ", K and V in "
                   << kv::info(dtype).name);
      body(step, dtype);
    }
}

/// The scale of a trained model.
inline float usual_scale(int head_dim) { return 1.0f / std::sqrt(static_cast<float>(head_dim)); }

/// A shape with 2 KV heads that serve 2 query heads each.
inline kv::AttentionShape grouped_shape(int head_dim, kv::DType dtype, bool causal) {
  return {{4, 2, head_dim}, dtype, usual_scale(head_dim), causal};
}

/// A problem of one sequence with q, k and v all 0, to be filled in.
inline AttentionProblem zero_problem(const kv::AttentionShape& shape, Lengths lengths) {
  AttentionProblem p;
  p.shape = shape;
  p.sequences = {{0, 0, lengths.q_len, lengths.kv_len}};
  p.q.assign(static_cast<std::size_t>(lengths.q_len) * shape.heads.q_dim(), 0.0f);
  p.k.assign(static_cast<std::size_t>(lengths.kv_len) * shape.heads.kv_dim(), 0.0f);
  p.v = p.k;
  return p;
}

/// The orders of threads that every kernel must survive.
inline void in_every_order(const auto& body) {
  using kv::emulator::Order;
  const std::pair<Order, int> orders[] = {
      {Order::forward, 0}, {Order::reverse, 0}, {Order::random, 1}, {Order::random, 2}};
  for (const auto& [order, seed] : orders) {
    INFO("order of threads " << static_cast<int>(order) << ", seed " << seed);
    kv::emulator::options().order = order;
    kv::emulator::options().seed = seed;
    body();
  }
  kv::emulator::options() = {};
}

}  // namespace kv_test
