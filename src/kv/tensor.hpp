// Row-major aliases for Eigen, whose default is column-major.
#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <vector>

namespace kv {

/// A row-major matrix of floats; rows are tokens unless a comment says otherwise.
using RowMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// A read-only view of row-major floats whose rows are `outerStride()` elements apart.
using ConstRows = Eigen::Ref<const RowMajor, 0, Eigen::OuterStride<>>;

/// A token of the vocabulary.
using TokenId = std::int32_t;

}  // namespace kv
