#include "kv/attention/causal.hpp"

#include <algorithm>

#include "kv/exercise.hpp"

namespace kv {

//! [causal mask]
KV_EXERCISE std::int64_t num_visible_keys(std::int64_t t, std::int64_t q_len, std::int64_t kv_len) {
  return std::max<std::int64_t>(t + 1 + kv_len - q_len, 0);
}
//! [causal mask]

}  // namespace kv
