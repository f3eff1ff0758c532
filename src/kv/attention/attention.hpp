// What attention is asked: new query rows over the cached rows of their sequences.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "kv/cache/sequence_state.hpp"
#include "kv/config.hpp"

namespace kv {

/// One sequence's share of an attention call. The keys are the state's spans: kv_len rows of which
/// the last q_len belong to the queries themselves.
struct AttentionItem {
  const float* q = nullptr;              ///< [q_len, num_q_heads, head_dim], already rotated
  std::int64_t q_stride = 0;             ///< floats from one token's queries to the next
  std::int64_t q_len = 0;                ///< new tokens
  const SequenceState* state = nullptr;  ///< whose cached rows are the keys
  float* out = nullptr;                  ///< [q_len, num_q_heads, head_dim], written; packed
  float* lse = nullptr;                  ///< [q_len, num_q_heads] natural log-sum-exp, or null
};

/// out = softmax(scale * q K^T) V per query head, causal, bottom-right aligned: query row t of
/// q_len over kv_len keys sees keys j <= t + kv_len - q_len. Query head h reads KV head h /
/// group_size. A row that sees no key gives out = 0 and lse = -inf.
///
/// It runs once per layer, for all sequences of a pass at once, so that a batch can be one launch.
/// plain::attend and fast::attend read the states of the CPU; a device, or a state with attention
/// of its own, brings another.
///
/// `items` are sequences of any lengths, `heads` the head geometry, `layer` is the one whose spans
/// are read, and `scale` the factor on q.k, normally 1 / sqrt(head_dim).
/// \throws std::invalid_argument when a state is not of the kind that it reads
using Attention = std::function<void(std::span<const AttentionItem> items, const HeadConfig& heads,
                                     int layer, float scale)>;

/// \throws std::invalid_argument on an item without a state or with a negative q_len; InputError
///         on heads that cannot be shared out
inline void check_items(std::span<const AttentionItem> items, const HeadConfig& heads) {
  heads.validate();
  for (const AttentionItem& item : items) {
    require(item.q_len >= 0, "attend: q_len must not be negative");
    require(item.state != nullptr, "attend: every item needs a state");
  }
}

}  // namespace kv
