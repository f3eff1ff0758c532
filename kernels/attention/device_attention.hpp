// Attention of a pass on a device: queries go up, a step of the ladder runs, results come down.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "attention/attention.hpp"
#include "cache/device_cache.hpp"
#include "kv/attention/attention.hpp"

namespace kv {

/// Which kernel runs which part of a pass.
struct AttentionSteps {
  AttentionStep prefill = AttentionStep::tiled;    ///< sequences with several new tokens
  AttentionStep decode = AttentionStep::split_kv;  ///< sequences with one new token
};

/// The steps that --step asks for.
///
/// \param step   1 to 6: this one for prefill and decode alike; 0: for prefill the fastest for the
///               format, tiled or, in 16 bit, tensor_core
/// \param dtype  format of the cached K and V
/// \param decode for decode when step is 0
AttentionSteps attention_steps(int step, KvDType dtype,
                               AttentionStep decode = AttentionStep::split_kv);

/// Those of paged caches.
inline constexpr AttentionSteps kPagedSteps = {AttentionStep::paged, AttentionStep::paged};

/// An Attention over DeviceCaches, all of which lie in the same memory; or, with kPagedSteps, over
/// PagedCaches of one pool of DeviceBlocks.
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

  /// As attend().
  ///
  /// \param items one a sequence
  /// \param heads head geometry
  /// \param layer whose K and V are read
  /// \param scale factor on q.k
  /// \throws std::invalid_argument when a state is not of the kind that the steps
  /// read, or lies in another memory than the first
  void operator()(std::span<const AttentionItem> items, const HeadConfig& heads, int layer,
                  float scale);

  /// Bytes of K and V that all calls so far have read from the device's memory, by the closed forms
  /// of traffic.hpp.
  std::int64_t kv_bytes_read() const { return kv_bytes_read_; }

 private:
  // What one launch covers.
  struct Batch {
    std::vector<SequenceRows> rows;
    std::vector<std::int32_t> block_ids;  // paged: [rows.size(), max_blocks]
    BatchTables tables;                   // paged; without the ids
  };
  // The same with its plan, which lasts while lengths, blocks and scale stay the same.
  struct Part {
    AttentionStep step;
    Batch batch;
    float scale = 0.0f;
    std::optional<AttentionPlan> plan;
    std::int64_t kv_bytes = 0;  // that a launch reads
  };

  // K and V of a layer, and who reads which rows of them.
  struct Memory {
    const std::byte* k = nullptr;
    const std::byte* v = nullptr;
    Batch prefill, decode;
  };

  Memory gather_contiguous(std::span<const AttentionItem> items, int layer) const;
  Memory gather_paged(std::span<const AttentionItem> items, int layer) const;
  void plan(Part& part, Batch batch, float scale);
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
