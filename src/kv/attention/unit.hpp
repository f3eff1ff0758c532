// One unit of attention work: some query rows of one KV head over a range of keys.
#pragma once

#include <cstdint>
#include <vector>

#include "kv/attention/over_spans.hpp"

namespace kv {

/// Tokens [first_token, first_token + num_tokens) of one sequence, for the query heads of one KV
/// head, over keys [begin, end). Row r is token first_token + r / group, head r % group.
struct AttentionUnit {
  const AttentionItem* item = nullptr;
  const std::vector<KvSpan>* spans = nullptr;
  int kv_head = 0;
  std::int64_t first_token = 0;
  std::int64_t num_tokens = 0;
  std::int64_t past = 0;   ///< kv_len - q_len: token t sees keys j <= t + past
  std::int64_t begin = 0;  ///< first key
  std::int64_t end = 0;    ///< behind the last key
  std::int64_t part = -1;  ///< its first row in AttentionParts; -1: the keys were not cut
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

}  // namespace kv
