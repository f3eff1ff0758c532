// Closed forms of the work that chapters 1 and 2 count.
#pragma once

#include <cstdint>

#include "kv/config.hpp"

namespace kv {

/// 1 + 2 + ... + n: the (row, key) pairs of a causal pass over n tokens.
constexpr std::int64_t triangular(std::int64_t n) { return n * (n + 1) / 2; }

/// Sum of the first n triangular numbers: the pairs of n passes over 1, 2, ..., n tokens.
constexpr std::int64_t tetrahedral(std::int64_t n) { return n * (n + 1) * (n + 2) / 6; }

/// Rows through the model for `num_new` output tokens after a prompt when every step starts from
/// nothing: \f$ \sum_{i=0}^{N-1} (P + i) = NP + N(N-1)/2 \f$, quadratic in N.
std::int64_t recompute_rows(std::int64_t prompt_len, std::int64_t num_new);

/// q.k products over all layers and query heads when every step starts from nothing: a sum of
/// triangular numbers, cubic in N.
std::int64_t recompute_scores(const ModelConfig& config, std::int64_t prompt_len,
                              std::int64_t num_new);

/// Rows with a cache: the prompt once, then one per step but the last: \f$ P + N - 1 \f$ for
/// \f$ P \f$ = prompt_len and \f$ N \f$ = num_new.
constexpr std::int64_t cached_rows(std::int64_t prompt_len, std::int64_t num_new) {
  return num_new <= 0 ? 0 : prompt_len + num_new - 1;
}

/// q.k products with a cache: every (row, earlier-or-own key) pair once, quadratic in prompt_len +
/// num_new; over all layers and query heads.
constexpr std::int64_t cached_scores(const ModelConfig& config, std::int64_t prompt_len,
                                     std::int64_t num_new) {
  return triangular(cached_rows(prompt_len, num_new)) * config.heads.num_q_heads *
         config.num_layers;
}

}  // namespace kv
