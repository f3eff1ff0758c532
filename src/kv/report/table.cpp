#include "kv/report/table.hpp"

#include <algorithm>
#include <utility>

#include "kv/check.hpp"
#include "kv/model/utf8.hpp"
#include "kv/report/display_width.hpp"

namespace kv {
namespace {

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
