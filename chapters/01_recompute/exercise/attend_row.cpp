// Chapter 1, exercise attend_row: attention of one query row.
//
// One query row q [head_dim] of one head looks at the rows of K and V that it may see, at least
// one. The score of row j is scale times q.k_j; the weights are the softmax of the scores; out
// [head_dim] becomes the weighted mean of the rows of V. Return the natural logarithm of the sum
// of the exponentials of the scores. Row j of K and of V begins at j * keys.row_stride. Compute in
// double precision. Scores may be in the ten thousands.
//
// Declarations, with shapes and errors: src/kv/attention/reference.hpp.
//
// 7 points:
//   1  equal keys give the mean of the values
//   2  weights follow the scaled scores
//   2  huge scores neither overflow nor vanish
//   1  the logarithm of the sum of exponentials is returned
//   1  rows are row_stride apart
//
// Page:  chapters/01_recompute/README.md
// Grade: ./kv grade 01_attend_row
#include <algorithm>
#include <cmath>

#include "kv/attention/reference.hpp"
#include "kv/exercise.hpp"

namespace kv {

double attend_row(std::span<const float> q, const HeadRows& keys, double scale,
                  std::span<double> out) {
  KV_TODO();
}

}  // namespace kv
