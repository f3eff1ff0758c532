// Chapter 3, exercise push: softmax statistics that run along with the scores.
//
// A row's softmax without its scores: keep the largest score so far, m, and the sum l of exp(s_j -
// m) over the scores so far. Take in one more score. What the caller has accumulated is relative
// to the old maximum; return the factor that brings it to the new one.
//
// An empty state is (m, l) = (-inf, 0). A masked score is -inf: it changes nothing, also when it
// is the first, and the factor is then 1.
//
// Declarations, with shapes and errors: src/kv/attention/online_softmax.hpp.
//
// 6 points:
//   2  m is the largest score, l the sum relative to it
//   2  the result rescales what was accumulated before
//   1  a masked score changes nothing
//   1  scores of any size are summed: near -1000 and near 1000
//
// Page:  chapters/03_flash_attention/README.md#the-equations
// Grade: ./kv grade 03_push
#include "kv/attention/online_softmax.hpp"
#include "kv/exercise.hpp"

namespace kv {

float OnlineSoftmax::push(float score) {
  KV_TODO();
}

}  // namespace kv
