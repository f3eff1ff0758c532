#include "kv/cost/work.hpp"

#include "kv/exercise.hpp"

namespace kv {

//! [recompute work]
KV_EXERCISE std::int64_t recompute_rows(std::int64_t prompt_len, std::int64_t num_new) {
  if (num_new <= 0) return 0;
  return triangular(prompt_len + num_new - 1) - triangular(prompt_len - 1);
}

KV_EXERCISE std::int64_t recompute_scores(const ModelConfig& config, std::int64_t prompt_len,
                                          std::int64_t num_new) {
  if (num_new <= 0) return 0;
  const std::int64_t pairs = tetrahedral(prompt_len + num_new - 1) - tetrahedral(prompt_len - 1);
  return pairs * config.heads.num_q_heads * config.num_layers;
}
//! [recompute work]

}  // namespace kv
