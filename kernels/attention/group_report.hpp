// What shared KV heads save a kernel, and what a kernel must do for it: counted, in the emulator.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <vector>

#include "attention/attention.hpp"
#include "kv/report/options.hpp"

namespace kv {

/// Attention of one new token in one layer, with a number of KV heads.
struct GroupRow {
  int num_kv_heads = 0;            ///< of the row
  std::int64_t bytes_needed = 0;   ///< q, K, V and out, each once
  std::int64_t split_bytes = 0;    ///< moved by step 5, which reads a KV head for each query head
  std::int64_t grouped_bytes = 0;  ///< moved by step 6, which reads it once for its group
  bool as_predicted = false;       ///< both counts equal their closed forms (traffic.hpp)
};

/// Counts both steps over `num_keys` keys for every number of KV heads that the query heads can
/// have and that chapter 4 can give the model (kv::possible_kv_heads).
///
/// \throws InputError when there is no kernel for the heads or the format
std::vector<GroupRow> count_group_reads(const HeadConfig& heads, DType dtype, int num_keys);

/// Prints them as a table; without kernels for the heads a line says so.
///
/// \param heads   the model's heads
/// \param options --kv-dtype is read
/// \param out     receives the table
/// \throws std::runtime_error, after printing, when a count differs from its closed form
void show_group_reads(const HeadConfig& heads, const ChapterOptions& options, std::ostream& out);

}  // namespace kv
