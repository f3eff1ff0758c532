// Attention of a pass on a device: queries go up, a step of the ladder runs, results come down.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "attention/attention.hpp"
#include "cache/device_cache.hpp"
#include "kv/attention/over_spans.hpp"

namespace kv {

/// Which kernel runs which part of a pass.
struct AttentionSteps {
  AttentionStep prefill = AttentionStep::tiled;    ///< sequences with several new tokens
  AttentionStep decode = AttentionStep::split_kv;  ///< sequences with one new token
};

/// The steps that --step asks for.
///
/// \param step  1 to 5: this one for prefill and decode alike; 0: the fastest for the format,
///              tiled or, in 16 bit, tensor_core for prefill and split_kv for decode
/// \param dtype format of the cached K and V
AttentionSteps attention_steps(int step, KvDType dtype);

/// An Attention over DeviceCaches, all of which lie in the same memory.
///
/// Sequences with one new token and sequences with several are two launches at most, however many
/// there are. They are planned in the first layer of a pass; the others reuse the plan.
class DeviceAttention {
 public:
  /// \param device runs the kernels; must outlive this
  /// \param heads  the model's heads
  /// \param dtype  format of the caches
  /// \param steps  kernels for prefill and decode
  /// \throws InputError when there is no kernel for the heads or the format
  DeviceAttention(Device& device, const HeadConfig& heads, KvDType dtype, AttentionSteps steps);

  /// As attend(). \throws std::invalid_argument when a state is no DeviceCache of one memory
  void operator()(std::span<const AttentionItem> items, const HeadConfig& heads, int layer,
                  float scale);

  /// Bytes of K and V that all calls so far have read from the device's memory, by the closed forms
  /// of traffic.hpp.
  std::int64_t kv_bytes_read() const { return kv_bytes_read_; }

 private:
  // What one launch covers, and its plan while lengths and scale stay the same.
  struct Part {
    AttentionStep step;
    std::vector<SequenceRows> rows;
    float scale = 0.0f;
    std::optional<AttentionPlan> plan;
    std::int64_t kv_bytes = 0;  // that a launch reads
  };

  void plan(Part& part, std::vector<SequenceRows> rows, float scale);
  void upload(std::span<const AttentionItem> items);
  void download(std::span<const AttentionItem> items) const;

  Device* device_;
  HeadConfig heads_;
  KvDType dtype_;
  Part prefill_, decode_;
  // The rows of all items, one item after the other.
  std::vector<float> host_q_;    // [num_rows, num_q_heads, head_dim]
  DeviceBuffer<float> q_, out_;  // same
  DeviceBuffer<float> lse_;      // [num_rows, num_q_heads]
  bool lse_is_wanted_ = false;
  std::int64_t kv_bytes_read_ = 0;
};

}  // namespace kv
