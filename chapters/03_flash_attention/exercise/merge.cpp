// Chapter 3, exercise merge: two parts of a row become one.
//
// Two CTAs have each finished attention over a part of a row's keys: an output, divided by its own
// sum, and the natural log of that sum (the log-sum-exp, lse). From the two lse alone, find the
// factors with which the outputs make up the whole, out = a * out_a + b * out_b, and the lse of
// the whole.
//
// A part without keys has lse = -inf and must not change the other. Of two empty parts both
// factors are 0 and the lse is -inf.
//
// Declarations, with shapes and errors: src/kv/attention/online_softmax.hpp.
//
// 5 points:
//   2  two parts make up the whole
//   1  an empty part is neutral
//   1  two empty parts are an empty one
//   1  log-sum-exps of any size are merged: near -500 and near 500
//
// Page:  chapters/03_flash_attention/README.md#the-equations
// Grade: ./kv grade 03_merge
#include "kv/attention/online_softmax.hpp"
#include "kv/exercise.hpp"

namespace kv {

MergeFactors merge_factors(float lse_a, float lse_b) {
  KV_TODO();
}

}  // namespace kv
