// Causal attention of new query rows over the cached rows of their sequence, on the CPU.
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
/// group_size. Each K/V row is read once for all query heads of its group. A row that sees no key
/// gives out = 0 and lse = -inf.
///
/// \param items  sequences of any lengths; work is shared over the thread team
/// \param heads  head geometry
/// \param layer  the layer whose spans are read
/// \param scale  factor on q.k, normally 1 / sqrt(head_dim)
/// Source: Milakov & Gimelshein 2018; Dao et al. 2022 (tiles); the split over keys is
/// Flash-Decoding.
void attend(std::span<const AttentionItem> items, const HeadConfig& heads, int layer, float scale);

/// Any way to compute what attend() does: another device, or a state with attention of its own. It
/// gets all sequences of a pass at once, so that a batch can be one launch; the items' states must
/// be of the kind that it reads.
using Attention = std::function<void(std::span<const AttentionItem> items, const HeadConfig& heads,
                                     int layer, float scale)>;

}  // namespace kv
