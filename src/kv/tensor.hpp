// The row-major matrix of the course (Eigen's default is column-major), and token ids.
#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <vector>

namespace kv {

/// A row-major matrix of floats; rows are tokens unless a comment says otherwise.
using RowMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// A token of the vocabulary.
using TokenId = std::int32_t;

}  // namespace kv
