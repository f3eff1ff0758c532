#include "kv/report/course_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <vector>

#include "kv/check.hpp"
#include "kv/report/output_file.hpp"
#include "kv/report/table.hpp"

namespace kv {

namespace {

using Cells = std::vector<std::string>;

const Cells kColumns = {"chapter",          "change", "tokens_equal",  "compared",
                        "logit_difference", "rows",   "kv_bytes_held", "kv_bytes_read_per_token",
                        "ttft_ms",          "tpot_ms"};

template <typename Value>
std::string cell(const std::optional<Value>& value) {
  return value ? fmt::format("{}", *value) : "";
}

std::vector<Cells> read(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw InputError(path + ": cannot be read; run the chapters first");
  std::vector<Cells> lines;
  // A device or a pipe could be read for ever.
  const bool is_file = std::filesystem::is_regular_file(path);
  for (std::string line; is_file && std::getline(file, line);) lines.push_back(csv_cells(line));
  const bool fits = !lines.empty() && lines[0] == kColumns &&
                    std::ranges::all_of(
                        lines, [](const Cells& cells) { return cells.size() == kColumns.size(); });
  if (!fits)
    throw InputError(path + ": is no table of the course; remove it, or name another file");
  lines.erase(lines.begin());
  return lines;
}

// A number as people read it; what is no number stays as it is.
std::string shown(const std::string& cell, const auto& show) {
  if (cell.empty()) return "";
  std::size_t num_read = 0;
  double number = 0.0;
  try {
    number = std::stod(cell, &num_read);
  } catch (const std::exception&) {
    return cell;
  }
  // Whole numbers are shown as 64 bits; the comparison also refuses a NaN.
  const bool fits = num_read == cell.size() && std::fabs(number) < 0x1p63;
  return fits ? show(number) : cell;
}

}  // namespace

void check_course_table(std::string_view option, const std::string& path) {
  check_writable(option, path);
  if (std::filesystem::exists(path)) read(path);
}

void add_to_course_table(std::string_view option, const std::string& path, const CourseRow& row) {
  std::vector<Cells> lines;
  if (std::filesystem::exists(path)) lines = read(path);
  const Cells line = {row.chapter,
                      row.change,
                      cell(row.tokens_equal),
                      row.tokens_equal ? fmt::format("{}", row.num_compared) : "",
                      cell(row.max_logit_difference),
                      cell(row.rows),
                      cell(row.kv_bytes_held),
                      cell(row.kv_bytes_read_per_token),
                      cell(row.ttft_ms),
                      cell(row.tpot_ms)};
  const auto same = std::ranges::find(lines, row.chapter, [](const Cells& c) { return c[0]; });
  if (same != lines.end())
    *same = line;
  else
    lines.push_back(line);
  std::string text = csv_row(kColumns);
  for (const Cells& cells : lines) text += csv_row(cells);
  write_file_atomically(option, path, text);
}

std::string course_table(const std::string& path) {
  const auto whole = [](double x) { return with_thousands(static_cast<std::int64_t>(x)); };
  const auto bytes = [](double x) { return decimal_bytes(static_cast<std::int64_t>(x)); };
  const auto small = [](double x) { return fmt::format("{:.1e}", x); };
  const auto ms = [](double x) { return fmt::format("{:.2f}", x); };
  Table table({"chapter", "what changed", "equal", "differ by", "rows", "KV held", "read/token",
               "TTFT", "TPOT"},
              {Align::left, Align::left});
  for (const Cells& c : read(path))
    table.add_row({c[0], c[1], c[2].empty() ? "" : c[2] + "/" + c[3], shown(c[4], small),
                   shown(c[5], whole), shown(c[6], bytes), shown(c[7], bytes), shown(c[8], ms),
                   shown(c[9], ms)});
  return table.str() +
         "equal, differ by: likeliest tokens and largest difference of logits, to the chapter "
         "before\nread/token: bytes of K and V that attention read for an output token; times in "
         "ms\n";
}

}  // namespace kv
