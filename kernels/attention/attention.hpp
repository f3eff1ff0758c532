// Attention on a device: the interface of every step of the ladder. Plain C++, no CUDA header.
//
// A plan holds what the host decides once a pass: who reads which rows, the working memory, and for
// decode how the keys are split. It then runs for every layer, on that layer's arrays.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "device_buffer.hpp"
#include "kv/config.hpp"
#include "kv/dtype.hpp"
#include "split_plan.hpp"

#ifndef KV_HD
#ifdef __CUDACC__
#define KV_HD __host__ __device__
#else
#define KV_HD
#endif
#endif

namespace kv {

/// The ladder, kernels/attention/NN_name.cu; the values are those numbers.
enum class AttentionStep {
  two_pass = 1,     ///< all scores go through global memory
  online = 2,       ///< a running maximum and sum: no score is kept
  tiled = 3,        ///< 64 query rows share each tile of keys; fp32 arithmetic
  tensor_core = 4,  ///< as 3 on tensor cores: K and V in 16 bit
  split_kv = 5,     ///< decode: several CTAs share the keys of a query row and head
  grouped = 6,      ///< as 5, with one read of a KV head for its whole group
  paged = 7,        ///< as 6 and, for several query rows, 3; K and V in blocks
};
/// All steps, in order.
inline constexpr AttentionStep kAttentionSteps[] = {
    AttentionStep::two_pass,    AttentionStep::online,   AttentionStep::tiled,
    AttentionStep::tensor_core, AttentionStep::split_kv, AttentionStep::grouped,
    AttentionStep::paged};

/// \return the file's name without number and ending, e.g. "tiled"
std::string_view name(AttentionStep step);

/// \return whether the step rounds q and the weights of V to a 16-bit format of K and V before it
///         multiplies: on tensor cores
bool rounds_products(AttentionStep step, DType kv_dtype);

/// Sizes of head that the kernels are compiled for.
inline constexpr int kHeadDims[] = {32, 64, 80, 96, 128, 256};

/// What all sequences of a launch have in common.
struct AttentionShape {
  HeadConfig heads;             ///< query heads, KV heads, head_dim
  DType kv_dtype = DType::f32;  ///< of k and v: f32, f16 or bf16; q, out and lse are fp32
  float scale = 1.0f;           ///< factor on q.k, normally 1 / sqrt(head_dim)
  bool causal = true;           ///< query t of q_len sees keys j <= t + kv_len - q_len; else all

  /// \throws InputError naming head_dim, or the format, when `step` has no kernel for it
  void validate(AttentionStep step) const;
  /// The same, also when `step` has none for this device.
  void validate(AttentionStep step, const Device& device) const;
};

/// Where one sequence's rows lie in the arrays of a launch.
struct SequenceRows {
  std::int64_t q_begin = 0;   ///< first row in q, out and lse
  std::int64_t kv_begin = 0;  ///< first row in k and v
  int q_len = 0;              ///< may be 0
  int kv_len = 0;             ///< may be 0: then out is 0 and lse -inf
};

/// Keys that query row t sees: [0, visible_keys) of its sequence; all when not `causal`.
KV_HD inline int visible_keys(int t, const SequenceRows& rows, bool causal) {
  if (!causal) return rows.kv_len;
  const int visible = t + 1 - rows.q_len + rows.kv_len;  // bottom-right aligned; no overflow
  return visible < 0 ? 0 : visible;
}

/// The block tables of a batch as the host has them. K and V are then [num_blocks, block_size,
/// num_kv_heads, head_dim].
struct BatchTables {
  /// [num_sequences, max_blocks], -1 where a sequence has fewer
  std::span<const std::int32_t> block_ids;
  std::int64_t max_blocks = 0;  ///< columns of block_ids
  int block_size = 0;           ///< tokens of a block: a power of two
  std::int64_t num_blocks = 0;  ///< of the pool

  /// Checks all that a kernel relies on, so that it reads no row outside the pool.
  /// \throws std::invalid_argument when block_size is no power of two, the table is too small, or a
  ///         block that a sequence needs for its kv_len is missing or outside the pool
  void validate(std::span<const SequenceRows> sequences) const;
};

/// The same in the memory of the device.
struct TableArrays {
  const std::int32_t* block_ids = nullptr;  ///< [num_sequences, max_blocks]
  int block_size = 0;                       ///< tokens of a block
};

/// What the host entry of a kernel gets. All pointers are the device's.
struct AttentionLaunch {
  AttentionShape shape;      ///< of all sequences
  const float* q = nullptr;  ///< [num_q_rows, num_q_heads, head_dim], 16-byte aligned
  const void* k = nullptr;   ///< [num_kv_rows, num_kv_heads, head_dim], 16-byte aligned
  const void* v = nullptr;   ///< same shape and layout as k
  float* out = nullptr;      ///< [num_q_rows, num_q_heads, head_dim], written
  float* lse = nullptr;      ///< [num_q_rows, num_q_heads], natural log, written; or null
  const SequenceRows* sequences = nullptr;  ///< [num_sequences]
  int num_sequences = 0;                    ///< sequences of the batch
  int max_q_len = 0;                        ///< the longest of all sequences
  int max_kv_len = 0;                       ///< the longest of all sequences
  float* scores = nullptr;                  ///< step 1: [num_q_rows, num_q_heads, max_kv_len]
  SplitArrays split;                        ///< from step 5 on
  TableArrays tables;                     ///< step 7; then kv_begin is where a sequence's ids begin
  const SequenceRows* prefill = nullptr;  ///< [num_prefill] step 7: those with several query rows
  int num_prefill = 0;                    ///< sequences in prefill
  Stream stream = nullptr;                ///< where the kernels are queued
};

/// Attention of any number of sequences, planned for one step of the ladder.
class AttentionPlan {
 public:
  /// \param device    runs the kernels; must outlive the plan
  /// \param step      which kernel
  /// \param shape     validated here
  /// \param sequences at least one; their query rows must not overlap
  /// \param split     how decode is split; used from step 5 on
  /// \throws InputError when there is no kernel for the shape
  AttentionPlan(Device& device, AttentionStep step, const AttentionShape& shape,
                std::span<const SequenceRows> sequences, const SplitOptions& split = {});

  /// A plan of step 7, over paged sequences: those with one query row are split as in step 6, the
  /// others go by the tiles of step 3.
  ///
  /// \param device    runs the kernels; must outlive the plan
  /// \param shape     validated here
  /// \param sequences at least one; kv_begin is not looked at
  /// \param tables    one row for each sequence; copied to the device, and validated here
  /// \param split     how the keys of sequences with one query row are split
  /// \throws InputError when there is no kernel for the shape, std::invalid_argument as
  ///         BatchTables::validate()
  AttentionPlan(Device& device, const AttentionShape& shape,
                std::span<const SequenceRows> sequences, const BatchTables& tables,
                const SplitOptions& split = {});

  /// out = softmax(scale * q K^T) V for every query row and head; head h reads KV head
  /// h / group_size. A row that sees no key gives out = 0 and lse = -inf. Queued on the stream: the
  /// call does not wait.
  ///
  /// \param q      [num_q_rows, num_q_heads, head_dim] device
  /// \param k      [num_kv_rows, num_kv_heads, head_dim] device, elements of shape.kv_dtype; with
  ///               tables all blocks of the pool
  /// \param v      as k
  /// \param out    as q, written
  /// \param lse    [num_q_rows, num_q_heads] device, written; null when nobody asks
  /// \param stream where the kernels are queued; null: the device's default stream
  /// \throws std::runtime_error when a launch fails
  void run(const float* q, const void* k, const void* v, float* out, float* lse = nullptr,
           Stream stream = nullptr) const;

  /// Working memory in bytes: the score matrix of step 1, the partial results from step 5
  /// on.
  std::int64_t workspace_bytes() const;
  /// The work items from step 5 on; empty for the others.
  std::span<const SplitItem> split_items() const { return split_plan_.items; }
  /// The whole plan from step 5 on; empty for the others.
  const SplitPlan& split_plan() const { return split_plan_; }

 private:
  void measure(std::span<const SequenceRows> sequences);
  void split_keys(std::span<const SequenceRows> sequences, const SplitOptions& split);

  Device* device_;
  AttentionStep step_;
  AttentionLaunch launch_;
  DeviceBuffer<SequenceRows> sequences_;
  DeviceBuffer<SequenceRows> prefill_;    // step 7
  DeviceBuffer<std::int32_t> block_ids_;  // step 7
  mutable DeviceBuffer<float> scores_;
  SplitPlan split_plan_;
  SplitBuffers split_buffers_;
};

/// The host entries of one build, indexed by step number - 1.
struct AttentionKernels {
  /// One for each step.
  void (*launch[std::size(kAttentionSteps)])(const AttentionLaunch&);
};
namespace emulated {
/// The entries of the kernels that the emulator runs fast.
const AttentionKernels& attention_kernels();
}  // namespace emulated
namespace checked {
/// The entries of the kernels that the emulator checks.
const AttentionKernels& attention_kernels();
}  // namespace checked
namespace gpu {
/// The entries of the kernels that nvcc compiled.
const AttentionKernels& attention_kernels();
}  // namespace gpu

}  // namespace kv
