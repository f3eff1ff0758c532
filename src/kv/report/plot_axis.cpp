#include "kv/report/plot_axis.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kv/check.hpp"
#include "kv/report/table.hpp"

namespace kv {
namespace {

// Numbers beyond are not drawn: differences of two of them would overflow.
constexpr double kLargest = 1e300;
constexpr double kSmallestOnLog = 1e-300;

constexpr double kSteps[] = {1.0, 2.0, 5.0, 10.0};

// The smallest 1, 2 or 5 times a power of ten that is at least `value`.
double round_up(double value) {
  const double power = std::pow(10.0, std::floor(std::log10(value)));
  for (const double step : kSteps)
    if (value <= step * power * (1 + 1e-9)) return step * power;
  return 10.0 * power;
}

double round_down(double value) {
  const double power = std::pow(10.0, std::floor(std::log10(value)));
  double best = power;
  for (const double step : kSteps)
    if (step * power <= value * (1 + 1e-9)) best = step * power;
  return best;
}

void lay_out_linear(AxisLayout& axis, int max_ticks) {
  // Zero belongs on the axis unless the data sits far away from it.
  if (axis.low > 0 && axis.low < 0.35 * axis.high) axis.low = 0;
  if (axis.high < 0 && axis.high > 0.35 * axis.low) axis.high = 0;
  if (axis.high - axis.low <= 1e-12 * std::max(std::fabs(axis.low), std::fabs(axis.high))) {
    const double margin = axis.high == 0 ? 1.0 : 0.5 * std::fabs(axis.high);
    axis.low -= axis.high == 0 ? 0.0 : margin;
    axis.high += margin;
  }
  const double step = round_up((axis.high - axis.low) / (max_ticks - 1));
  const double first = std::floor(axis.low / step + 1e-9);
  const double last = std::ceil(axis.high / step - 1e-9);
  axis.low = first * step;
  axis.high = last * step;
  for (double i = first; i <= last; ++i) axis.ticks.push_back(i * step);
}

void lay_out_log(AxisLayout& axis, int max_ticks) {
  axis.low = round_down(axis.low);
  axis.high = round_up(axis.high);
  if (axis.high <= axis.low * (1 + 1e-9)) {
    axis.low = round_down(axis.low * 0.6);
    axis.high = round_up(axis.high * 1.6);
  }
  const int first = static_cast<int>(std::floor(std::log10(axis.low) + 1e-9));
  const int last = static_cast<int>(std::floor(std::log10(axis.high) + 1e-9));
  const auto inside = [&](double tick) {
    return tick >= axis.low * (1 - 1e-9) && tick <= axis.high * (1 + 1e-9);
  };
  // All of 1, 2, 5; else powers of ten; else every second, third ... power.
  std::vector<double> all;
  for (int e = first; e <= last; ++e)
    for (int s = 0; s < 3; ++s)
      if (const double tick = kSteps[s] * std::pow(10.0, e); inside(tick)) all.push_back(tick);
  if (static_cast<int>(all.size()) <= max_ticks) {
    axis.ticks = all;
    return;
  }
  const int every = (last - first) / max_ticks + 1;
  for (int e = first; e <= last; e += every)
    if (const double tick = std::pow(10.0, e); inside(tick)) axis.ticks.push_back(tick);
}

std::string superscript(int number) {
  static const char* const digits[] = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
  std::string out;
  for (const char c : std::to_string(number)) out += c == '-' ? "⁻" : digits[c - '0'];
  return out;
}

}  // namespace

bool AxisLayout::shows(double value) const {
  if (!std::isfinite(value) || std::fabs(value) > kLargest) return false;
  return scale == Scale::linear || value >= kSmallestOnLog;
}

double AxisLayout::fraction(double value) const {
  if (scale == Scale::linear) return (value - low) / (high - low);
  return (std::log10(value) - std::log10(low)) / (std::log10(high) - std::log10(low));
}

AxisLayout lay_out_axis(const std::vector<double>& values, Scale scale, int max_ticks) {
  require(max_ticks >= 2, "an axis needs two ticks");
  AxisLayout axis;
  axis.scale = scale;
  bool any = false;
  for (const double value : values) {
    if (!axis.shows(value)) continue;
    axis.low = any ? std::min(axis.low, value) : value;
    axis.high = any ? std::max(axis.high, value) : value;
    any = true;
  }
  if (!any) {
    axis.low = scale == Scale::log ? 1.0 : 0.0;
    axis.high = scale == Scale::log ? 10.0 : 1.0;
  }
  if (scale == Scale::linear)
    lay_out_linear(axis, max_ticks);
  else
    lay_out_log(axis, max_ticks);
  for (const double tick : axis.ticks) axis.labels.push_back(tick_label(tick));
  return axis;
}

std::string tick_label(double value) {
  if (value == 0) return "0";
  const double size = std::fabs(value);
  if (size >= 1e-3 && size < 1e6) {
    const double rounded = std::round(value);
    if (std::fabs(value - rounded) < 1e-9 * size)
      return with_thousands(static_cast<std::int64_t>(rounded));
    return fmt::format("{:.4g}", value);
  }
  int exponent = static_cast<int>(std::floor(std::log10(size) + 1e-12));
  const std::string mantissa = fmt::format("{:.3g}", value / std::pow(10.0, exponent));
  if (mantissa == "1") return "10" + superscript(exponent);
  return mantissa + "·10" + superscript(exponent);
}

void check_plot(const Plot& plot) {
  for (const Series& series : plot.series) {
    require(series.x.size() == series.y.size(), "a series needs as many x as y");
    require(series.notes.empty() || series.notes.size() == series.x.size(),
            "a series needs no notes or one a point");
  }
}

std::vector<double> axis_values(const Plot& plot, bool x_axis) {
  AxisLayout x, y;
  x.scale = plot.x.scale;
  y.scale = plot.y.scale;
  std::vector<double> values;
  for (const Series& series : plot.series)
    for (std::size_t i = 0; i < series.x.size(); ++i)
      if (x.shows(series.x[i]) && y.shows(series.y[i]))
        values.push_back(x_axis ? series.x[i] : series.y[i]);
  return values;
}

}  // namespace kv
