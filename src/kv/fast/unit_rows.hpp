// What the steps of a unit of attention share: its rows, and which keys they see.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kv/dtype.hpp"
#include "kv/fast/tile_kernels.hpp"

namespace kv::fast {

/// The query rows of one KV head, and where their results gather.
struct Rows {
  const float* q;      ///< [count, head_dim]
  float* out;          ///< [count, head_dim]
  float* m;            ///< [count]
  float* l;            ///< [count]
  float* scores;       ///< [count, kTileKeys]
  std::int64_t count;  ///< rows
};

/// Calls `body` with a null pointer of the span's element type, `dtype`.
template <class Body>
void with_type(DType dtype, Body&& body) {
  if (dtype == DType::f32) body(static_cast<const float*>(nullptr));
  if (dtype == DType::f16) body(static_cast<const f16*>(nullptr));
  if (dtype == DType::bf16) body(static_cast<const bf16*>(nullptr));
}

/// Which keys of the current tile the rows of a unit see. Token t sees keys j <= t + past, so a
/// later row sees at least what an earlier one sees.
struct Visibility {
  std::int64_t first_token;  ///< query token of row 0
  std::int64_t past;         ///< kv_len - q_len
  std::int64_t first_key;    ///< of the tile
  int num_keys;              ///< of the tile
  int group;                 ///< group_size

  /// How many keys of the tile row r sees.
  int keys(std::int64_t r) const {
    const std::int64_t t = first_token + r / group;
    return static_cast<int>(std::clamp<std::int64_t>(t + past + 1 - first_key, 0, num_keys));
  }
};

/// One tile of scores through the softmax; what the rows have gathered so far is rescaled.
/// \param visible  how many keys of the tile each row sees
/// \param rows     query rows with their scores and state
/// \param scale    factor on the scores
/// \param head_dim elements of what a row has gathered
inline void softmax_rows(const Visibility& visible, const Rows& rows, float scale, int head_dim) {
  for (std::int64_t r = 0; r < rows.count; ++r) {
    const float rescale =
        softmax_tile(rows.scores + r * kTileKeys, visible.keys(r), scale, rows.m[r], rows.l[r]);
    if (rescale == 1.0f) continue;
    float* out = rows.out + r * head_dim;
    for (int d = 0; d < head_dim; ++d) out[d] *= rescale;
  }
}

}  // namespace kv::fast
