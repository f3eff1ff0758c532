#include "attention/group_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <stdexcept>
#include <string>

#include "attention/ladder_report.hpp"
#include "kv/model/pool_heads.hpp"
#include "kv/report/table.hpp"

namespace kv {
namespace {

std::string ratio(std::int64_t moved, std::int64_t needed) {
  return fmt::format("{:.2f}", static_cast<double>(moved) / static_cast<double>(needed));
}

}  // namespace

std::vector<GroupRow> count_group_reads(const HeadConfig& heads, DType dtype, int num_keys) {
  std::vector<GroupRow> rows;
  for (const int num_kv_heads : possible_kv_heads(heads)) {
    const HeadConfig shared{heads.num_q_heads, num_kv_heads, heads.head_dim};
    const AttentionShape shape{shared, dtype, 1.0f / std::sqrt(static_cast<float>(heads.head_dim)),
                               true};
    const LadderRow split = measure_step(AttentionStep::split_kv, shape, 1, num_keys);
    const LadderRow grouped = measure_step(AttentionStep::grouped, shape, 1, num_keys);
    rows.push_back({num_kv_heads, split.bytes_needed, split.bytes_moved, grouped.bytes_moved,
                    split.bytes_moved == split.bytes_predicted &&
                        grouped.bytes_moved == grouped.bytes_predicted});
  }
  return rows;
}

void show_group_reads(const HeadConfig& heads, const ChapterOptions& options, std::ostream& out) {
  std::vector<GroupRow> rows;
  try {
    rows = count_group_reads(heads, options.kv_dtype, kDecodeKeys);
  } catch (const InputError& error) {
    out << "\n\nNo kernels to compare: " << error.what();
    return;
  }
  Table table({"KV heads", "must move", "5 split_kv", "ratio", "6 grouped", "ratio"},
              {Align::right});
  for (const GroupRow& row : rows)
    table.add_row({fmt::format("{}", row.num_kv_heads), with_thousands(row.bytes_needed),
                   with_thousands(row.split_bytes), ratio(row.split_bytes, row.bytes_needed),
                   with_thousands(row.grouped_bytes), ratio(row.grouped_bytes, row.bytes_needed)});
  const bool equal = std::ranges::all_of(rows, &GroupRow::as_predicted);
  out << fmt::format(
             "\n\nWho reads a shared row: one new token over {} keys, {} query heads of {}, K and "
             "V "
             "in {};\nbytes that one layer's attention moves, counted in the emulator:\n",
             with_thousands(kDecodeKeys), heads.num_q_heads, heads.head_dim,
             info(options.kv_dtype).name)
      << table.str(2)
      << (equal ? "  Every count of bytes moved equals its closed form."
                : "  A COUNT DIFFERS FROM ITS CLOSED FORM.");
  if (!equal) throw std::runtime_error("a count differs from its closed form");
}

}  // namespace kv
