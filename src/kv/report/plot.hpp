// Line and scatter plots of the same data, as SVG for a page and as text for a terminal.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace kv {

/// How numbers are spread over an axis.
enum class Scale {
  linear,  ///< equal differences take equal lengths
  log,     ///< equal ratios take equal lengths; positive numbers only
};

/// One axis; its range comes from the data.
struct Axis {
  std::string label;            ///< quantity and unit, e.g. "cached tokens"
  Scale scale = Scale::linear;  ///< linear or logarithmic
};

/// One set of points. A point that is not finite, or not positive on a log axis, is left out and
/// interrupts the line.
struct Series {
  std::string name;                ///< as the legend shows it
  std::vector<double> x;           ///< as many as y
  std::vector<double> y;           ///< in the order of x
  bool line = true;                ///< join the points in their order
  bool markers = true;             ///< draw each point
  std::vector<std::string> notes;  ///< empty, or one tooltip text a point
};

/// What to draw.
struct Plot {
  std::string title;           ///< above the plot
  Axis x;                      ///< to the right
  Axis y;                      ///< upwards
  std::vector<Series> series;  ///< drawn in this order
};

/// An SVG element that can stand alone or be put into a page: text and axes are drawn in
/// currentColor, so they follow the page in dark mode; every point has a tooltip; series
/// differ in colour, marker and dash. Output depends on the arguments only.
///
/// \param plot   the data
/// \param width  in pixels, at least 240
/// \param height in pixels, at least 160
/// \throws std::invalid_argument on a series whose x, y or notes differ in length
std::string to_svg(const Plot& plot, int width = 720, int height = 420);

/// Several plots below one another as one such element.
/// \param plots  at least one; the first one's title names the whole
/// \param width  in pixels, of all
/// \param height in pixels, of each
std::string to_svg(std::span<const Plot> plots, int width = 720, int height = 420);

/// The same plot in braille dots, two by four a character; each series also carries its letter.
///
/// \param plot    the data
/// \param columns of the whole drawing, at least 30
/// \param rows    of the plot's area, at least 5
/// \throws std::invalid_argument as above
std::string to_terminal(const Plot& plot, int columns = 78, int rows = 16);

}  // namespace kv
