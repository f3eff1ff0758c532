// Rows of K and V in the number format of a cache.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kv/cache/sequence_state.hpp"

namespace kv {

/// Writes floats in a cache's format, each rounded to the nearest number, ties to even.
///
/// \param from  [count]
/// \param count numbers, of any number of rows
/// \param dtype fp32, fp16 or bf16
/// \param to    count elements of `dtype`, written; aligned for them
/// \throws std::invalid_argument for any other format
void store_rows(const float* from, std::int64_t count, KvDType dtype, std::byte* to);

}  // namespace kv
