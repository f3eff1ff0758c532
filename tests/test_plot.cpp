// Plots: axes, SVG and terminal drawings of the same data.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <limits>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "kv/report/display_width.hpp"
#include "kv/report/plot.hpp"
#include "kv/report/plot_axis.hpp"

namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::WithinAbs;
using kv::Scale;

kv::Plot example() {
  kv::Plot plot;
  plot.title = "Rows & products <recomputed>";
  plot.x = {"output token", Scale::linear};
  plot.y = {"rows", Scale::log};
  plot.series = {{"without \"cache\"", {1, 2, 3, 4}, {10, 200, 3000, 40000}, true, true, {}},
                 {"with cache", {1, 2, 3, 4}, {1, 2, 3, 4}, true, true, {"w", "x", "y", "z"}}};
  return plot;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t number = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++number;
  return number;
}

// Tags open and close in order, and no text holds a bare "&": enough of XML for what we write.
bool well_formed(const std::string& svg) {
  std::vector<std::string> open;
  const std::regex tag("<(/?)([a-z]+)[^<>]*?(/?)>");
  for (std::sregex_iterator it(svg.begin(), svg.end(), tag), end; it != end; ++it) {
    if ((*it)[1].length() > 0) {
      if (open.empty() || open.back() != (*it)[2]) return false;
      open.pop_back();
    } else if ((*it)[3].length() == 0) {
      open.push_back((*it)[2]);
    }
  }
  const std::string rest = std::regex_replace(svg, std::regex("&(amp|lt|gt|quot);"), "");
  return open.empty() && rest.find('&') == std::string::npos;
}

}  // namespace

TEST_CASE("axis: ticks are round, ascending and span the data", "[plot]") {
  const auto check = [](std::vector<double> values, Scale scale, int max_ticks) {
    const kv::AxisLayout axis = kv::lay_out_axis(values, scale, max_ticks);
    INFO("values " << values.front() << " .. " << values.back() << ", " << axis.ticks.size()
                   << " ticks from " << axis.low << " to " << axis.high);
    CHECK(axis.ticks.size() >= 2);
    CHECK(axis.ticks.size() <= static_cast<std::size_t>(max_ticks) + 2);
    CHECK(std::is_sorted(axis.ticks.begin(), axis.ticks.end()));
    CHECK(axis.labels.size() == axis.ticks.size());
    for (const double v : values) {
      CHECK(axis.fraction(v) >= -1e-9);
      CHECK(axis.fraction(v) <= 1 + 1e-9);
    }
    for (const double t : axis.ticks) {
      CHECK(axis.fraction(t) >= -1e-9);
      CHECK(axis.fraction(t) <= 1 + 1e-9);
    }
  };
  for (const int max_ticks : {3, 5, 8}) {
    check({0, 1}, Scale::linear, max_ticks);
    check({5}, Scale::linear, max_ticks);
    check({0}, Scale::linear, max_ticks);
    check({-3, 4}, Scale::linear, max_ticks);
    check({-1e6, -9e5}, Scale::linear, max_ticks);
    check({1000.1, 1000.2}, Scale::linear, max_ticks);
    check({-1e300, 1e300}, Scale::linear, max_ticks);
    check({1, 1}, Scale::log, max_ticks);
    check({3}, Scale::log, max_ticks);
    check({0.07, 0.09}, Scale::log, max_ticks);
    check({1, 1e6}, Scale::log, max_ticks);
    check({1e-300, 1e300}, Scale::log, max_ticks);
  }
}

TEST_CASE("axis: a log axis puts powers of ten at equal distances", "[plot]") {
  const kv::AxisLayout axis = kv::lay_out_axis({1, 10000}, Scale::log, 6);
  CHECK(axis.ticks.size() == 5);
  CHECK_THAT(axis.fraction(100), WithinAbs(0.5, 1e-12));
  CHECK_FALSE(axis.shows(0));
  CHECK_FALSE(axis.shows(-1));
  CHECK_FALSE(axis.shows(NAN));
  CHECK_FALSE(axis.shows(INFINITY));
  const kv::AxisLayout linear = kv::lay_out_axis({0, 10}, Scale::linear, 6);
  CHECK(linear.shows(-1));
  CHECK_THAT(linear.fraction(5), WithinAbs(0.5, 1e-12));
}

TEST_CASE("tick labels: numbers are short and exact", "[plot]") {
  CHECK(kv::tick_label(0) == "0");
  CHECK(kv::tick_label(0.1 + 0.2) == "0.3");
  CHECK(kv::tick_label(16384) == "16,384");
  CHECK(kv::tick_label(-2.5) == "-2.5");
  CHECK(kv::tick_label(1e6) == "10⁶");
  CHECK(kv::tick_label(2e12) == "2·10¹²");
  CHECK(kv::tick_label(1e-7) == "10⁻⁷");
}

TEST_CASE("SVG: text follows the page's colour, points carry tooltips, names are escaped",
          "[plot]") {
  const std::string svg = kv::to_svg(example());
  CHECK(well_formed(svg));
  CHECK_THAT(svg, ContainsSubstring("fill=\"currentColor\"") &&
                      ContainsSubstring("Rows &amp; products &lt;recomputed&gt;"));
  CHECK(count(svg, "<title>") == 8);  // one a point
  CHECK_THAT(svg,
             ContainsSubstring("<title>without &quot;cache&quot;: output token = 2, rows = 200"));
  CHECK_THAT(svg, ContainsSubstring("<title>y</title>"));
  CHECK(svg.find("black") == std::string::npos);  // nothing is invisible on a dark page
  CHECK(svg.find("#000") == std::string::npos);
  CHECK(svg == kv::to_svg(example()));
}

TEST_CASE("SVG: points lie where their numbers say, inside the picture", "[plot]") {
  kv::Plot plot;
  plot.series = {{"", {0, 5, 10}, {0, 50, 100}, false, true, {}}};
  const std::string svg = kv::to_svg(plot, 400, 300);
  const std::regex place("translate\\(([0-9.]+) ([0-9.]+)\\)");
  std::vector<double> x, y;
  for (std::sregex_iterator it(svg.begin(), svg.end(), place), end; it != end; ++it) {
    x.push_back(std::stod((*it)[1]));
    y.push_back(std::stod((*it)[2]));
  }
  REQUIRE(x.size() == 3);
  CHECK_THAT(x[1], WithinAbs((x[0] + x[2]) / 2, 0.11));
  CHECK_THAT(y[1], WithinAbs((y[0] + y[2]) / 2, 0.11));
  CHECK(x[0] < x[2]);
  CHECK(y[0] > y[2]);  // larger numbers are higher
  CHECK(x[2] <= 400);
  CHECK(y[0] <= 300);
}

TEST_CASE("plots: points that cannot be shown are left out and interrupt the line", "[plot]") {
  kv::Plot plot;
  plot.y.scale = Scale::log;
  plot.series = {
      {"a", {1, 2, 3, 4, 5, 6, 7}, {1, 10, 0, 100, NAN, INFINITY, 1000}, true, true, {}}};
  const std::string svg = kv::to_svg(plot);
  CHECK(well_formed(svg));
  CHECK(count(svg, "<title>") == 4);
  CHECK(svg.find("nan") == std::string::npos);
  CHECK(svg.find("inf") == std::string::npos);
  const std::smatch path = [&] {
    std::smatch match;
    std::regex_search(svg, match, std::regex("<path d=\"(M[^\"]*)\" fill=\"none\""));
    return match;
  }();
  CHECK(count(path[1], "M") == 3);
  CHECK(count(path[1], "L") == 1);
  CHECK_NOTHROW(kv::to_terminal(plot));
}

TEST_CASE("SVG: several plots lie below one another in one picture", "[plot]") {
  const kv::Plot plots[] = {example(), example(), example()};
  const std::string one = kv::to_svg(plots[0], 400, 300), all = kv::to_svg(plots, 400, 300);
  CHECK_THAT(one, ContainsSubstring("height=\"300\""));
  CHECK_THAT(all, ContainsSubstring("viewBox=\"0 0 400 900\""));
  CHECK_THAT(all, ContainsSubstring("translate(0 300)\">"));
  CHECK_THAT(all, ContainsSubstring("translate(0 600)\">"));
  CHECK(count(all, "<svg") == 1);
  CHECK(count(all, "<title>") == 3 * count(one, "<title>"));
  CHECK(well_formed(all));
  CHECK_THROWS_AS(kv::to_svg(std::span<const kv::Plot>(), 300, 200), std::invalid_argument);
}

TEST_CASE("plots: no data gives empty axes, uneven data is refused", "[plot]") {
  kv::Plot plot;
  plot.series = {{"nothing", {}, {}, true, true, {}}, {"only NaN", {1}, {NAN}, true, true, {}}};
  CHECK(well_formed(kv::to_svg(plot)));
  CHECK_FALSE(kv::to_terminal(plot).empty());
  CHECK(well_formed(kv::to_svg(kv::Plot{})));
  plot.series[0].x = {1};
  CHECK_THROWS_AS(kv::to_svg(plot), std::invalid_argument);
  CHECK_THROWS_AS(kv::to_terminal(plot), std::invalid_argument);
  plot.series[0].y = {1};
  plot.series[0].notes = {"a", "b"};
  CHECK_THROWS_AS(kv::to_svg(plot), std::invalid_argument);
}

TEST_CASE("terminal plot: no line is wider than asked, and the slope can be seen", "[plot]") {
  kv::Plot plot = example();
  for (const int columns : {30, 60, 100}) {
    std::istringstream lines(kv::to_terminal(plot, columns, 8));
    std::string line;
    std::getline(lines, line);                              // the title may be as long as it is
    for (int i = 0; i < 2; ++i) std::getline(lines, line);  // so may the legend
    while (std::getline(lines, line)) {
      INFO(line);
      CHECK(kv::display_width(line) <= columns);
    }
  }
  // A rising line starts bottom left and ends top right.
  plot = kv::Plot{};
  plot.series = {{"", {0, 1}, {0, 1}, true, false, {}}};
  const std::string text = kv::to_terminal(plot, 40, 6);
  std::istringstream lines(text);
  std::vector<std::string> rows;
  for (std::string line; std::getline(lines, line);) rows.push_back(line);
  REQUIRE(rows.size() == 8);  // six rows, the rule, the labels
  CHECK(rows[0].ends_with("⠁") + rows[0].ends_with("⠊") + rows[0].ends_with("⠉") +
            rows[0].ends_with("⠈") + rows[0].ends_with("⠔") + rows[0].ends_with("⠒") >
        0);
  CHECK(kv::display_width(rows[0]) > kv::display_width(rows[5]));
}
