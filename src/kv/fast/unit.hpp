// One unit of attention work: some query rows of one KV head over a range of keys.
#pragma once

#include <cstdint>
#include <vector>

#include "kv/attention/attention.hpp"

namespace kv::fast {

/// Query rows of one KV head from which on preparing a tile (widen, transpose) is cheaper than
/// reading K and V where they lie.
inline constexpr std::int64_t kMinPreparedRows = 8;

/// Tokens [first_token, first_token + num_tokens) of one sequence, for the query heads of KV heads
/// [first_head, first_head + num_heads), over keys [begin, end).
///
/// Its rows are [num_heads, num_tokens, group_size]: all query rows of a KV head follow each other.
struct AttentionUnit {
  const AttentionItem* item = nullptr;         ///< the sequence
  const std::vector<KvSpan>* spans = nullptr;  ///< [num_heads] from first_head on
  int first_head = 0;                          ///< first KV head
  int num_heads = 1;                           ///< KV heads
  std::int64_t first_token = 0;                ///< first query token
  std::int64_t num_tokens = 0;                 ///< query tokens
  std::int64_t past = 0;                       ///< kv_len - q_len: token t sees keys j <= t + past
  std::int64_t begin = 0;                      ///< first key
  std::int64_t end = 0;                        ///< behind the last key
  std::int64_t part = -1;  ///< its first row in AttentionParts; -1: the keys were not cut

  /// Query rows of one KV head.
  std::int64_t rows_per_head(const HeadConfig& heads) const {
    return num_tokens * heads.group_size();
  }
  /// Query rows in all.
  std::int64_t num_rows(const HeadConfig& heads) const { return num_heads * rows_per_head(heads); }

  /// Index of row r among [q_len, num_q_heads], the order of the item's q, out and lse.
  std::int64_t query(std::int64_t r, const HeadConfig& heads) const {
    const std::int64_t per_head = rows_per_head(heads), group = heads.group_size();
    const std::int64_t g = first_head + r / per_head, t = first_token + r % per_head / group;
    return t * heads.num_q_heads + g * group + r % group;
  }
};

/// Unfinished rows of units whose keys were cut: to be merged when all parts are there.
struct AttentionParts {
  std::vector<float> m;    ///< [num_rows] largest score
  std::vector<float> l;    ///< [num_rows] sum of exponentials relative to m
  std::vector<float> out;  ///< [num_rows, head_dim] weighted sums of V, relative to m
};

/// Runs one unit in the calling thread and writes the item's out and lse, or its rows of `parts`.
///
/// \param unit  what to do
/// \param heads head geometry
/// \param scale factor on the scores
/// \param parts written at unit.part when that is not -1
void run_unit(const AttentionUnit& unit, const HeadConfig& heads, float scale,
              AttentionParts& parts);

}  // namespace kv::fast
