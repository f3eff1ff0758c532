// The causal mask.
#pragma once

#include <cstdint>

namespace kv {

/// Keys that query row t sees: the first so many of its sequence. Bottom-right aligned: the queries
/// are the last q_len of kv_len tokens, so row t sees keys j <= t + kv_len - q_len.
///
/// \param t      query row, 0 <= t < q_len
/// \param q_len  new tokens
/// \param kv_len tokens whose keys there are; less than q_len leaves the first rows without any
/// \return 0 to kv_len
std::int64_t num_visible_keys(std::int64_t t, std::int64_t q_len, std::int64_t kv_len);

}  // namespace kv
