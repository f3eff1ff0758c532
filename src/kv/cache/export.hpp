// One sequence of a paged cache as a file of arrays, the very ones that the paged libraries take.
//
// Arrays (docs/paged-arrays.md goes through them field by field):
//   k_cache_LL, v_cache_LL  [num_blocks, block_size, num_kv_heads, head_dim], a pair for each layer
//                           LL = 00, 01, ...; fp32 or fp16
//   k_cache_LL_bf16, ...    the same in bf16, which numpy does not have: the bits as uint16
//   block_table             int32 [1, max_blocks]: the sequence's blocks; -1 = none
//   seq_lens                int32 [1]: its tokens
//   slot_mapping            int64 [seq_len]: block * block_size + place in the block, for each
//   token
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kv/cache/npz.hpp"
#include "kv/cache/paged.hpp"

namespace kv {

/// Which blocks an export holds.
enum class ExportScope {
  sequence,  ///< those of the sequence, renumbered without gaps in the order of their ids
  pool,      ///< all, with their ids; blocks of nobody are NaN
};

/// The committed tokens of a sequence as arrays.
/// \throws std::invalid_argument when the blocks are not in the memory of the host
std::vector<NpzArray> export_arrays(const PagedCache& cache,
                                    ExportScope scope = ExportScope::sequence);

/// Writes them as .npz.
/// \param option the option that named the path, for messages
/// \param path   of the file, replaced when it is there
/// \param cache  the sequence
/// \param scope  its blocks alone, or the whole pool
/// \throws InputError naming option and path when it cannot be written
void export_sequence(std::string_view option, const std::string& path, const PagedCache& cache,
                     ExportScope scope = ExportScope::sequence);

/// A sequence of `pool` with the tokens of an exported one. The pool's blocks may have another
/// size.
///
/// \param arrays   as export_arrays() makes them, for the pool's layers, heads and format
/// \param path     where they come from, for messages
/// \param pool     gives the blocks
/// \param sequence its number in a trace
/// \return nothing when the pool has too few blocks
/// \throws InputError, one line, when the arrays contradict each other or do not fit the pool
std::optional<PagedCache> import_arrays(const std::vector<NpzArray>& arrays, std::string_view path,
                                        std::shared_ptr<PagedPool> pool,
                                        std::int32_t sequence = -1);

/// Reads an .npz file and does the same.
/// \throws InputError also when the file cannot be read
std::optional<PagedCache> import_sequence(const std::string& path, std::shared_ptr<PagedPool> pool,
                                          std::int32_t sequence = -1);

}  // namespace kv
