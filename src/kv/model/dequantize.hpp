// From any storage format to float: the plain loops that every faster product is compared with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kv/dtype.hpp"
#include "kv/model/weights.hpp"

namespace kv {

/// Widens whole blocks.
///
/// \param dtype  format of the blocks
/// \param blocks out.size() / block_elements blocks of block_bytes bytes each; need not be aligned
/// \param out    written; its size must be a multiple of the format's block_elements
/// \throws std::invalid_argument when it is not, or when the format is unknown
void dequantize_blocks(DType dtype, const std::byte* blocks, std::span<float> out);

/// Widens one row: out[i] = W[row, i].
///
/// \param w   weight matrix
/// \param row in [0, w.num_rows)
/// \param out [w.num_cols], written
/// \throws std::invalid_argument on a row or size that does not fit
void dequantize_row(const WeightMatrix& w, std::int64_t row, std::span<float> out);

/// Widens part of a row: out[i] = W[row, first_col + i]. The range may begin and end inside blocks.
///
/// \param w         weight matrix
/// \param row       in [0, w.num_rows)
/// \param first_col first column, at least 0
/// \param out       written; first_col + out.size() must be at most w.num_cols
/// \throws std::invalid_argument on a range that does not fit
void dequantize_range(const WeightMatrix& w, std::int64_t row, std::int64_t first_col,
                      std::span<float> out);

}  // namespace kv
