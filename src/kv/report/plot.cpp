// The SVG drawing; plot_terminal.cpp draws the same data as text.
#include "kv/report/plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kv/check.hpp"
#include "kv/model/utf8.hpp"
#include "kv/report/display_width.hpp"
#include "kv/report/plot_axis.hpp"

namespace kv {
namespace {

// Middle tones: each has a contrast of at least 3:1 to white and to #1b1b1b, and neighbours also
// differ in marker and dash for readers who do not see the colours.
constexpr const char* kColors[] = {"#2f7de1", "#d9622b", "#1f9d63",
                                   "#b65ac8", "#a07d14", "#d6457a"};
constexpr const char* kDashes[] = {"", "7 3", "2 3", "9 3 2 3", "4 2", "12 4"};
// Markers of radius 1 around the origin: disc, square, triangle, diamond, triangle down, cross.
constexpr const char* kMarkers[] = {"M-1 0a1 1 0 1 0 2 0a1 1 0 1 0-2 0z",
                                    "M-.9-.9h1.8v1.8h-1.8z",
                                    "M0-1.15L1.1.85H-1.1z",
                                    "M0-1.3L1.1 0L0 1.3L-1.1 0z",
                                    "M0 1.15L1.1-.85H-1.1z",
                                    "M-.4-1.1h.8v.7h.7v.8h-.7v.7h-.8v-.7h-.7v-.8h.7z"};
constexpr int kStyles = 6;

// Sans-serif text at 12 px is about 6.7 px a column wide; a little more leaves room.
constexpr double kColumnWidth = 7.0;
constexpr double kTitleColumnWidth = 9.8;  // bold, 15 px, of the widest common font
constexpr double kLineHeight = 20.0;

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : to_valid_utf8(text)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:  // XML has no other control characters than these
        out += static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' ? ' ' : c;
    }
  }
  return out;
}

double text_width(std::string_view text) { return kColumnWidth * display_width(text); }

std::vector<std::string> wrapped(std::string_view text, double width, double column_width) {
  std::vector<std::string> lines(1);
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string word(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    const int columns = display_width(lines.back()) + 1 + display_width(word);
    if (!lines.back().empty() && columns * column_width > width) lines.emplace_back();
    if (!lines.back().empty()) lines.back() += ' ';
    lines.back() += word;
  }
  return lines;
}

struct Drawing {
  std::string out;
  double left, top, right, bottom;  // of the plot's area
  AxisLayout x, y;

  double px(double value) const { return left + x.fraction(value) * (right - left); }
  double py(double value) const { return bottom - y.fraction(value) * (bottom - top); }
  bool shows(const Series& s, std::size_t i) const { return x.shows(s.x[i]) && y.shows(s.y[i]); }

  void text(double at_x, double at_y, const char* anchor, std::string_view what,
            std::string_view more = "") {
    out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", at_x,
                       at_y, anchor, more, escaped(what));
  }
};

std::string marker(int style, double x, double y, double radius, double opacity,
                   std::string_view tooltip) {
  return fmt::format(
      "<path d=\"{}\" transform=\"translate({:.1f} {:.1f}) scale({})\" fill=\"{}\"{}>{}</path>\n",
      kMarkers[style], x, y, radius, kColors[style],
      opacity < 1 ? fmt::format(" fill-opacity=\"{}\"", opacity) : "",
      tooltip.empty() ? "" : "<title>" + escaped(tooltip) + "</title>");
}

void draw_axes(Drawing& d, const Plot& plot) {
  d.out += "<g stroke=\"currentColor\" stroke-width=\"1\">\n";
  const auto line = [&](double x1, double y1, double x2, double y2, const char* opacity) {
    d.out += fmt::format("<path d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\" stroke-opacity=\"{}\"/>\n", x1,
                         y1, x2, y2, opacity);
  };
  for (const double tick : d.x.ticks) line(d.px(tick), d.top, d.px(tick), d.bottom, "0.15");
  for (const double tick : d.y.ticks) line(d.left, d.py(tick), d.right, d.py(tick), "0.15");
  line(d.left, d.top, d.left, d.bottom, "0.7");
  line(d.left, d.bottom, d.right, d.bottom, "0.7");
  d.out += "</g>\n";
  for (std::size_t i = 0; i < d.x.ticks.size(); ++i)
    d.text(d.px(d.x.ticks[i]), d.bottom + 18, "middle", d.x.labels[i]);
  for (std::size_t i = 0; i < d.y.ticks.size(); ++i)
    d.text(d.left - 8, d.py(d.y.ticks[i]) + 4, "end", d.y.labels[i]);
  d.text((d.left + d.right) / 2, d.bottom + 40, "middle", plot.x.label);
  // Horizontal above its axis, because turned text is hard to read.
  d.text(8, d.top - 12, "start", plot.y.label);
}

void draw_series(Drawing& d, const Plot& plot, const Series& series, int style) {
  if (series.line) {
    std::string path;
    bool pen_down = false;
    for (std::size_t i = 0; i < series.x.size(); ++i) {
      if (d.shows(series, i))
        path += fmt::format("{}{:.1f} {:.1f}", pen_down ? "L" : "M", d.px(series.x[i]),
                            d.py(series.y[i]));
      pen_down = d.shows(series, i);
    }
    if (!path.empty())
      d.out += fmt::format(
          "<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\" "
          "stroke-linejoin=\"round\"{}/>\n",
          path, kColors[style],
          *kDashes[style] ? fmt::format(" stroke-dasharray=\"{}\"", kDashes[style]) : "");
  }
  // Points without a marker keep an invisible one, for its tooltip.
  const double radius = series.x.size() > 60 ? 2.5 : 4;
  for (std::size_t i = 0; i < series.x.size(); ++i) {
    if (!d.shows(series, i)) continue;
    const std::string name = series.name.empty() ? "" : series.name + ": ";
    const std::string note =
        series.notes.empty()
            ? fmt::format("{}{} = {}, {} = {}", name, plot.x.label, tick_label(series.x[i]),
                          plot.y.label, tick_label(series.y[i]))
            : series.notes[i];
    d.out +=
        marker(style, d.px(series.x[i]), d.py(series.y[i]), radius, series.markers ? 1 : 0, note);
  }
}

// Rows of the legend: {x, row} of each entry, from left to right, wrapped.
struct Legend {
  std::vector<std::pair<double, int>> places;
  int num_rows = 0;
};

constexpr double kSampleWidth = 30.0;

Legend lay_out_legend(const Plot& plot, double width) {
  Legend legend;
  double x = 0;
  const bool named =
      plot.series.size() > 1 || (!plot.series.empty() && !plot.series[0].name.empty());
  if (!named) return legend;
  legend.num_rows = 1;
  for (const Series& series : plot.series) {
    const double entry = kSampleWidth + 8 + text_width(series.name) + 18;
    if (x > 0 && x + entry > width) {
      x = 0;
      ++legend.num_rows;
    }
    legend.places.emplace_back(x, legend.num_rows - 1);
    x += entry;
  }
  return legend;
}

void draw_legend(Drawing& d, const Plot& plot, const Legend& legend, double top) {
  for (std::size_t i = 0; i < legend.places.size(); ++i) {
    const Series& series = plot.series[i];
    const int style = static_cast<int>(i) % kStyles;
    const double x = 8 + legend.places[i].first;
    const double y = top + kLineHeight * legend.places[i].second + 10;
    if (series.line)
      d.out += fmt::format(
          "<path d=\"M{:.1f} {:.1f}h{}\" stroke=\"{}\" stroke-width=\"2\"{}/>\n", x, y,
          kSampleWidth, kColors[style],
          *kDashes[style] ? fmt::format(" stroke-dasharray=\"{}\"", kDashes[style]) : "");
    if (series.markers) d.out += marker(style, x + kSampleWidth / 2, y, 4, 1, "");
    d.text(x + kSampleWidth + 8, y + 4, "start", series.name);
  }
}

// The elements of one plot whose top left corner is the origin, and how high it has become.
struct Picture {
  std::string elements;
  int height;
};

Picture draw(const Plot& plot, int width, int height) {
  check_plot(plot);

  const std::vector<std::string> title = wrapped(plot.title, width - 16, kTitleColumnWidth);
  const Legend legend = lay_out_legend(plot, width - 16);
  const double title_height =
      plot.title.empty() ? 0 : kLineHeight * static_cast<double>(title.size());
  const double legend_top = 10 + title_height;

  Drawing d;
  d.top = legend_top + kLineHeight * legend.num_rows + (plot.y.label.empty() ? 14 : 34);
  d.bottom = std::max(d.top + 60, static_cast<double>(height) - 52);
  d.y = lay_out_axis(axis_values(plot, false), plot.y.scale,
                     std::max(3, static_cast<int>((d.bottom - d.top) / 36)));
  double widest = 0;
  for (const std::string& label : d.y.labels) widest = std::max(widest, text_width(label));
  d.left = 16 + widest;
  d.right = width - 28;
  d.x = lay_out_axis(axis_values(plot, true), plot.x.scale,
                     std::max(2, static_cast<int>((d.right - d.left) / 72)));

  if (!plot.title.empty())
    for (std::size_t i = 0; i < title.size(); ++i)
      d.text(8, 22 + kLineHeight * static_cast<double>(i), "start", title[i],
             " font-size=\"15\" font-weight=\"600\"");
  draw_legend(d, plot, legend, legend_top);
  draw_axes(d, plot);
  for (std::size_t i = 0; i < plot.series.size(); ++i)
    draw_series(d, plot, plot.series[i], static_cast<int>(i) % kStyles);
  return {std::move(d.out), std::max(height, static_cast<int>(d.bottom + 52))};
}

}  // namespace

std::string to_svg(const Plot& plot, int width, int height) {
  return to_svg(std::span(&plot, 1), width, height);
}

std::string to_svg(std::span<const Plot> plots, int width, int height) {
  require(width >= 240 && height >= 160, "a plot needs at least 240 x 160 pixels");
  require(!plots.empty(), "a picture needs a plot");
  std::string elements;
  int top = 0;
  for (const Plot& plot : plots) {
    const Picture picture = draw(plot, width, height);
    if (top == 0)
      elements += picture.elements;
    else
      elements += fmt::format("<g transform=\"translate(0 {})\">\n{}</g>\n", top, picture.elements);
    top += picture.height;
  }
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
             "height=\"{1}\" style=\"max-width:100%;height:auto\" role=\"img\" aria-label=\"{2}\" "
             "fill=\"currentColor\" "
             "font-family=\"system-ui,'Liberation Sans',Arial,sans-serif\" font-size=\"12\">\n",
             width, top, escaped(plots.front().title)) +
         elements + "</svg>\n";
}

}  // namespace kv
