// Chapter 1, exercise attend_row: attention of one query row.
//
// One query row q [head_dim] of one head looks at the rows of K and V that it may see, k and v
// [num_keys, head_dim], at least one. The score of row j is scale times q.k_j; the weights are the
// softmax of the scores; out [head_dim] becomes the weighted mean of the rows of v. Return the
// natural logarithm of the sum of the exponentials of the scores. Scores may be in the ten
// thousands.
//
// q, k, v and out are matrices of Eigen: q(d) and k(j, d) are single numbers, k.rows() and
// k.cols() the sizes; loops do as well as products of matrices. Between two rows of a head lie
// those of other heads, so rows are row_stride apart in memory: k(j, d) heeds it, k.data() alone
// does not. The precision of float is enough.
//
// Declarations, with shapes and errors: src/kv/attention/plain.hpp.
//
// 7 points:
//   1  equal keys give the mean of the values
//   2  weights follow the scaled scores
//   2  huge scores neither overflow nor vanish
//   1  the logarithm of the sum of exponentials is returned
//   1  rows are row_stride apart
//
// Page:  chapters/01_recompute/README.md#attention-of-one-row
// Grade: ./kv grade 01_attend_row
#include <cmath>

#include "kv/attention/plain.hpp"
#include "kv/exercise.hpp"

namespace kv {

float attend_row(const RowVector& q, const HeadView& k, const HeadView& v, float scale,
                 RowVector& out) {
  KV_TODO();
}

}  // namespace kv
