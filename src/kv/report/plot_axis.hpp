// What both kinds of plot share: ranges, tick marks and the place of a number on an axis.
#pragma once

#include <string>
#include <vector>

#include "kv/report/plot.hpp"

namespace kv {

/// An axis with its range and tick marks settled.
struct AxisLayout {
  Scale scale = Scale::linear;      ///< linear or logarithmic
  double low = 0.0;                 ///< left or lower end
  double high = 1.0;                ///< right or upper end
  std::vector<double> ticks;        ///< ascending, within [low, high]
  std::vector<std::string> labels;  ///< one a tick

  /// Whether a number can be shown at all.
  bool shows(double value) const;

  /// 0 at the low end, 1 at the high end.
  double fraction(double value) const;
};

/// Finds the range of `values` that `scale` can show, widens it to round numbers and sets ticks at
/// 1, 2 or 5 times a power of ten.
///
/// \param values     any numbers, also none
/// \param scale      linear or log
/// \param max_ticks  at least 2
AxisLayout lay_out_axis(const std::vector<double>& values, Scale scale, int max_ticks);

/// A number as a tick or a tooltip shows it: 0.25, 16,384, 10⁶, 2·10⁶.
std::string tick_label(double value);

/// \throws std::invalid_argument on a series whose x, y or notes differ in length
void check_plot(const Plot& plot);

/// All numbers of one axis, those that either axis of their point cannot show left out.
std::vector<double> axis_values(const Plot& plot, bool x_axis);

}  // namespace kv
