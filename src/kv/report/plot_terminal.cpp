// Plots as text: braille characters hold two by four dots each.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>

#include "kv/check.hpp"
#include "kv/model/utf8.hpp"
#include "kv/report/display_width.hpp"
#include "kv/report/plot.hpp"
#include "kv/report/plot_axis.hpp"

namespace kv {
namespace {

class Canvas {
 public:
  Canvas(int columns, int rows)
      : columns_(columns), rows_(rows), cells_(static_cast<std::size_t>(columns) * rows) {}

  int dots_x() const { return 2 * columns_; }
  int dots_y() const { return 4 * rows_; }

  void dot(int x, int y) {
    // Bit of the dot in column 0 or 1, row 0 to 3. Source: The Unicode Standard, block 2800.
    static constexpr std::uint8_t kBits[4][2] = {{1, 8}, {2, 16}, {4, 32}, {64, 128}};
    if (x >= 0 && x < dots_x() && y >= 0 && y < dots_y())
      cell(x / 2, y / 4).dots |= kBits[y % 4][x % 2];
  }

  void line(int x0, int y0, int x1, int y1) {
    const int steps = std::max({std::abs(x1 - x0), std::abs(y1 - y0), 1});
    for (int i = 0; i <= steps; ++i)
      dot(x0 + static_cast<int>(std::lround(static_cast<double>(x1 - x0) * i / steps)),
          y0 + static_cast<int>(std::lround(static_cast<double>(y1 - y0) * i / steps)));
  }

  void letter(int x, int y, char c) { cell(x / 2, y / 4).letter = c; }

  std::string row(int r) const {
    std::string out;
    for (int c = 0; c < columns_; ++c) {
      const Cell& cell = cells_[static_cast<std::size_t>(r) * columns_ + c];
      if (cell.letter != 0) {
        out += cell.letter;
      } else if (cell.dots == 0) {
        out += ' ';
      } else {  // U+2800 + dots in UTF-8
        out += '\xe2';
        out += static_cast<char>(0xa0 | (cell.dots >> 6));
        out += static_cast<char>(0x80 | (cell.dots & 0x3f));
      }
    }
    return out;
  }

 private:
  struct Cell {
    std::uint8_t dots = 0;
    char letter = 0;
  };
  Cell& cell(int column, int row) {
    return cells_[static_cast<std::size_t>(row) * columns_ + column];
  }

  int columns_;
  int rows_;
  std::vector<Cell> cells_;
};

char letter_of(std::size_t series) { return static_cast<char>('a' + series % 26); }

struct Frame {
  AxisLayout x, y;
  int dots_x, dots_y;

  bool shows(const Series& s, std::size_t i) const { return x.shows(s.x[i]) && y.shows(s.y[i]); }
  int px(double v) const { return static_cast<int>(std::lround(x.fraction(v) * (dots_x - 1))); }
  int py(double v) const {
    return static_cast<int>(std::lround((1 - y.fraction(v)) * (dots_y - 1)));
  }
};

void draw(Canvas& canvas, const Frame& frame, const Series& series) {
  bool pen_down = false;
  for (std::size_t i = 0; i < series.x.size(); ++i) {
    const bool shown = frame.shows(series, i);
    if (shown) {
      const int x = frame.px(series.x[i]), y = frame.py(series.y[i]);
      if (series.line && pen_down)
        canvas.line(frame.px(series.x[i - 1]), frame.py(series.y[i - 1]), x, y);
      canvas.dot(x, y);
    }
    pen_down = shown;
  }
}

// Letters tell the series apart: every point that has a marker, else the last point.
void draw_letters(Canvas& canvas, const Frame& frame, const Series& series, char letter) {
  constexpr std::size_t kMostLetters = 8;  // more would hide the line
  std::vector<std::size_t> shown;
  for (std::size_t i = 0; i < series.x.size(); ++i)
    if (frame.shows(series, i)) shown.push_back(i);
  if (shown.empty()) return;
  const bool all = series.markers && (!series.line || shown.size() <= kMostLetters);
  if (!all) shown = {shown[shown.size() / 2], shown.back()};
  for (const std::size_t i : shown)
    canvas.letter(frame.px(series.x[i]), frame.py(series.y[i]), letter);
}

std::string spaces(int count) {
  return std::string(static_cast<std::size_t>(std::max(0, count)), ' ');
}

std::string trimmed(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

// The rule under the plot with its ticks, and the labels below those that leave room.
std::string draw_x_axis(const Frame& frame, int margin, int columns) {
  std::string rule = spaces(margin) + "└", labels = spaces(margin + 1);
  std::vector<bool> marked(static_cast<std::size_t>(columns), false);
  int used = 0;  // columns of the label line that are taken
  for (std::size_t i = 0; i < frame.x.ticks.size(); ++i) {
    const int column = frame.px(frame.x.ticks[i]) / 2;
    const int width = display_width(frame.x.labels[i]);
    const int start = std::clamp(column - width / 2, 0, std::max(0, columns - width));
    if (used > 0 && start < used + 1) continue;
    marked[static_cast<std::size_t>(column)] = true;
    labels += spaces(start - used) + frame.x.labels[i];
    used = start + width;
  }
  for (const bool mark : marked) rule += mark ? "┬" : "─";
  return rule + "\n" + trimmed(labels);
}

}  // namespace

std::string to_terminal(const Plot& plot, int columns, int rows) {
  require(columns >= 30 && rows >= 5, "a terminal plot needs at least 30 x 5 characters");
  check_plot(plot);

  Frame frame;
  frame.y = lay_out_axis(axis_values(plot, false), plot.y.scale, std::max(2, rows / 3));
  int margin = 0;
  for (const std::string& label : frame.y.labels) margin = std::max(margin, display_width(label));
  margin += 1;
  const int area = std::max(10, columns - margin - 1);
  frame.x = lay_out_axis(axis_values(plot, true), plot.x.scale, std::max(2, area / 10));

  Canvas canvas(area, rows);
  frame.dots_x = canvas.dots_x();
  frame.dots_y = canvas.dots_y();
  const bool letters = plot.series.size() > 1;
  for (const Series& series : plot.series) draw(canvas, frame, series);
  for (std::size_t s = 0; letters && s < plot.series.size(); ++s)
    draw_letters(canvas, frame, plot.series[s], letter_of(s));

  std::string out;
  if (!plot.title.empty()) out += to_valid_utf8(plot.title) + "\n";
  for (std::size_t s = 0; letters && s < plot.series.size(); ++s)
    out += std::string("  ") + letter_of(s) + " = " + to_valid_utf8(plot.series[s].name) + "\n";
  if (!plot.y.label.empty()) out += to_valid_utf8(plot.y.label) + "\n";
  for (int r = 0; r < rows; ++r) {
    std::string label;
    for (std::size_t i = 0; i < frame.y.ticks.size(); ++i)
      if (frame.py(frame.y.ticks[i]) / 4 == r) label = frame.y.labels[i];
    out += trimmed(spaces(margin - 1 - display_width(label)) + label +
                   (label.empty() ? " │" : " ┤") + canvas.row(r));
  }
  out += draw_x_axis(frame, margin, area);
  if (!plot.x.label.empty())
    out += trimmed(spaces(margin + 1 + (area - display_width(plot.x.label)) / 2) +
                   to_valid_utf8(plot.x.label));
  return out;
}

}  // namespace kv
