// Chapter 4, exercise mean_pool: one KV head out of several.
//
// A projection of K or V has head_dim rows for each KV head: w is [num_kv_heads * head_dim,
// d_model]. To make a model with fewer KV heads, each group of num_pooled neighbouring heads
// becomes one, their mean. Write one row of the new projection, the one of element d of new head
// g: d_model numbers, summed in double and not rounded.
//
// dequantize_row(w, r, row) widens row r of the old projection, whatever its format, into d_model
// floats.
//
// Declarations, with shapes and errors: src/kv/model/dequantize.hpp, src/kv/model/pool_heads.hpp.
//
// 5 points:
//   2  a row is the mean of one row of each head
//   1  the heads that are pooled are neighbours
//   1  rows of any format are pooled
//   1  the sum is kept in double
//
// Page:  chapters/04_shared_heads/README.md#the-equations
// Grade: ./kv grade 04_mean_pool
#include "kv/exercise.hpp"
#include "kv/model/dequantize.hpp"
#include "kv/model/pool_heads.hpp"

namespace kv {

std::vector<double> pooled_row(const WeightMatrix& w, int head_dim, int num_pooled,
                               int g, int d) {
  KV_TODO();
}

}  // namespace kv
