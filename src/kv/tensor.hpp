// The row-major matrix of the course (Eigen's default is column-major), and token ids.
#pragma once

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
