// How much dynamic shared memory the attention kernels ask for, for kernel_report, which cannot see
// it in machine code. The launchers assert that it is what they ask for. Plain C++.
#pragma once

#include <string_view>

#include "attention/tile_shape.hpp"

namespace kv {

/// Dynamic shared memory of one CTA in bytes.
///
/// \param kernel        name without template arguments
/// \param head_dim      elements of a head
/// \param element_bytes of K and V; step 6 only
/// \param head_tiles    of 16 query heads that a CTA computes; step 6 only
/// \return 0 for kernels that ask for none
constexpr int dynamic_shared_bytes(std::string_view kernel, int head_dim, int element_bytes = 2,
                                   int head_tiles = 1) {
  if (kernel == "tiled_kernel") {  // fp32 tiles of q, of k or v, and of the weights, with padding
    const int rows = tiled_rows(head_dim), keys = tiled_keys(head_dim);
    return 4 * (rows * head_dim + keys * (head_dim + 4) + rows * (keys + 8));
  }
  if (kernel == "tensor_core_kernel") {  // two tiles of k and one of v in 16 bit; parked queries
    const int keys = tensor_core_keys(head_dim);
    const int parked = 16 * 128 * tensor_core_parked(head_dim);
    return 2 * 3 * keys * head_dim + parked;
  }
  if (kernel == "grouped_kernel") {  // the queries in the format of k and v; a ring for each warp
    const int row_bytes = element_bytes * head_dim;
    const int slot = grouped_keys(head_dim, element_bytes) * row_bytes;
    return 16 * head_tiles * row_bytes + grouped_warps(head_dim) * grouped_slots(head_dim) * slot;
  }
  return 0;
}

}  // namespace kv
