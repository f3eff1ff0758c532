// The row-major matrix of the course (Eigen's default is column-major), and token ids.
#pragma once

// On AVX2, Eigen 3.4 hands clang its multiply-adds as assembly, whose order clang may not change: a
// product ran at 119 GFLOP/s, without that at 141 (two threads of a Xeon, clang 19; g++ 142). Eigen
// asks this macro which compiler it has. Versions with the header that is looked for are mended.
#if defined(__clang__) && defined(__AVX2__) && !defined(__AVX512F__) && \
    !__has_include(<Eigen/src/Core/InternalHeaderCheck.h>)
#include <Eigen/src/Core/util/Macros.h>
#undef EIGEN_COMP_CLANG
#define EIGEN_COMP_CLANG 0
#endif
#include <Eigen/Core>
#include <cstdint>

namespace kv {

/// A row-major matrix of floats; rows are tokens unless a comment says otherwise.
using RowMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// One row of such a matrix.
using RowVector = Eigen::Matrix<float, 1, Eigen::Dynamic, Eigen::RowMajor>;

/// A row where it lies.
using RowView = Eigen::Map<const RowVector>;

/// The rows of one head where they lie, [num_rows, head_dim]: between two of them are those of the
/// other heads. Never a copy.
using HeadView = Eigen::Map<const RowMajor, Eigen::Unaligned, Eigen::OuterStride<>>;

/// A token of the vocabulary.
using TokenId = std::int32_t;

}  // namespace kv
