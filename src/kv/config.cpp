#include "kv/config.hpp"

#include "kv/exercise.hpp"

namespace kv {

//! [head mapping]
KV_EXERCISE int HeadConfig::group_size() const {
  // Nothing is left over: validate() has refused such head counts.
  return num_q_heads / num_kv_heads;
}

KV_EXERCISE int HeadConfig::kv_head(int h) const {
  // Neighbours share: 0 0 1 1, not 0 1 0 1.
  return h / group_size();
}
//! [head mapping]

}  // namespace kv
