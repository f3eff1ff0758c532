#include "kv/report/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "kv/check.hpp"
#include "kv/model/utf8.hpp"
#include "kv/report/display_width.hpp"

namespace kv {
namespace {

struct Unit {
  std::int64_t bytes;
  const char* name;
};

// The largest unit is the one that memory sizes are compared in; above it thousands are grouped.
constexpr Unit kDecimal[] = {{1'000'000'000, "GB"}, {1'000'000, "MB"}, {1'000, "kB"}};
constexpr Unit kBinary[] = {
    {std::int64_t{1} << 30, "GiB"}, {std::int64_t{1} << 20, "MiB"}, {std::int64_t{1} << 10, "KiB"}};

// Both systems switch units at the same size, so that GB stands beside GiB, never beside MiB.
std::string in_unit(std::int64_t bytes, const Unit (&units)[3]) {
  const double size = std::fabs(static_cast<double>(bytes));
  for (int i = 0; i < 3; ++i)
    if (size >= static_cast<double>(kDecimal[i].bytes))
      return four_digits(static_cast<double>(bytes) / static_cast<double>(units[i].bytes)) + " " +
             units[i].name;
  return fmt::format("{} B", bytes);
}

std::string one_line(std::string_view text) {
  std::string out = to_valid_utf8(text);
  for (char& c : out)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  return out;
}

void append_cell(std::string& out, const std::string& cell, int width, Align align) {
  const std::string padding(static_cast<std::size_t>(width - display_width(cell)), ' ');
  out += align == Align::left ? cell + padding : padding + cell;
}

}  // namespace

std::string with_thousands(std::int64_t value) {
  const std::string digits = std::to_string(value);
  std::string out;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const bool inside = i > 0 && digits[i - 1] != '-';
    if (inside && (digits.size() - i) % 3 == 0) out += ',';
    out += digits[i];
  }
  return out;
}

std::string four_digits(double value) {
  if (std::isnan(value)) return "not a number";
  if (std::isinf(value)) return value > 0 ? "infinite" : "-infinite";
  const double size = std::fabs(value);
  // The limits are those of the rounded number: 9.9996 is written 10.00, not 10.000.
  if (size < 9.9995) return fmt::format("{:.3f}", value);
  if (size < 99.995) return fmt::format("{:.2f}", value);
  if (size < 999.95) return fmt::format("{:.1f}", value);
  if (size < 9e18) return with_thousands(std::llround(value));
  return fmt::format("{:.3e}", value);
}

std::string decimal_bytes(std::int64_t bytes) { return in_unit(bytes, kDecimal); }

std::string binary_bytes(std::int64_t bytes) { return in_unit(bytes, kBinary); }

std::string format_bytes(std::int64_t bytes) {
  if (bytes > -1000 && bytes < 1000) return fmt::format("{} B", bytes);
  return decimal_bytes(bytes) + " (" + binary_bytes(bytes) + ")";
}

Table::Table(std::vector<std::string> headers, std::vector<Align> aligns)
    : headers_(std::move(headers)), aligns_(std::move(aligns)) {
  require(!headers_.empty(), "a table needs a column");
  require(aligns_.size() <= headers_.size(), "more alignments than columns");
  while (aligns_.size() < headers_.size())
    aligns_.push_back(aligns_.empty() ? Align::left : Align::right);
  for (std::string& header : headers_) header = one_line(header);
}

void Table::add_row(std::vector<std::string> cells) {
  require(cells.size() == headers_.size(), "a row needs one cell a column");
  for (std::string& cell : cells) cell = one_line(cell);
  rows_.push_back(std::move(cells));
}

std::string Table::str(int indent) const {
  std::vector<int> widths(headers_.size(), 0);
  const auto widen = [&](const std::vector<std::string>& cells) {
    for (std::size_t c = 0; c < cells.size(); ++c)
      widths[c] = std::max(widths[c], display_width(cells[c]));
  };
  widen(headers_);
  for (const auto& row : rows_) widen(row);

  std::string out;
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string text(static_cast<std::size_t>(indent), ' ');
    for (std::size_t c = 0; c < cells.size(); ++c) {
      if (c > 0) text += "  ";
      append_cell(text, cells[c], widths[c], aligns_[c]);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    out += text + "\n";
  };
  line(headers_);
  std::vector<std::string> rule;
  for (const int width : widths) {
    std::string dashes;
    for (int i = 0; i < width; ++i) dashes += "─";
    rule.push_back(dashes);
  }
  line(rule);
  for (const auto& row : rows_) line(row);
  return out;
}

}  // namespace kv
