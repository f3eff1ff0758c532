// Chapter 1, exercise recompute_work: what N tokens cost without a cache.
//
// After a prompt of prompt_len tokens, at least 1, num_new tokens are produced, and each step runs
// the whole text so far through the model. Return what all steps together cost, without a loop:
// recompute_rows() the rows through the model, recompute_scores() the products of a query row and
// a key it sees, over all query heads and layers.
//
// triangular(n) and tetrahedral(n) are there to be used. Numbers may be large.
//
// Declarations, with shapes and errors: src/kv/cost/work.hpp.
//
// 6 points:
//   2  rows are the sum of all steps
//   2  products are counted in every query head and layer
//   1  no new token costs nothing
//   1  a long text is counted exactly
//
// Page:  chapters/01_recompute/README.md#the-equations
// Grade: ./kv grade 01_recompute_work
#include "kv/cost/work.hpp"
#include "kv/exercise.hpp"

namespace kv {

std::int64_t recompute_rows(std::int64_t prompt_len, std::int64_t num_new) {
  KV_TODO();
}

std::int64_t recompute_scores(const ModelConfig& config, std::int64_t prompt_len,
                              std::int64_t num_new) {
  KV_TODO();
}

}  // namespace kv
