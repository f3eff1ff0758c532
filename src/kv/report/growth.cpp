#include "kv/report/growth.hpp"

#include <fmt/format.h>

#include <ostream>
#include <stdexcept>

#include "kv/cost/work.hpp"
#include "kv/report/output_file.hpp"
#include "kv/report/plot.hpp"
#include "kv/report/table.hpp"

namespace kv {

namespace {

constexpr std::int64_t kNumPoints = 32;  // of the plot, spread over the run

}  // namespace

void show_growth(const Generation& run, const ModelConfig& config, const ChapterOptions& options,
                 std::ostream& out) {
  const auto prompt_len = static_cast<std::int64_t>(run.prompt.size());
  const auto num_new = static_cast<std::int64_t>(run.steps.size());
  Table table({"output token", "rows", "N P + N(N-1)/2", "q.k products", "closed form",
               "rows with a cache", "ms in all"});
  Series counted{"rows, recomputed", {}, {}, true, false, {}};
  Series cached{"rows with a cache", {}, {}, true, false, {}};

  Work total;
  double total_ms = 0.0;
  bool equal = true;
  for (std::int64_t n = 1; n <= num_new; ++n) {
    total += run.steps[n - 1].work;
    total_ms += run.steps[n - 1].ms;
    const std::int64_t rows = recompute_rows(prompt_len, n);
    const std::int64_t scores = recompute_scores(config, prompt_len, n);
    equal = equal && total.rows == rows && total.scores == scores;
    if (n * kNumPoints / num_new != (n - 1) * kNumPoints / num_new) {
      counted.x.push_back(static_cast<double>(n));
      counted.y.push_back(static_cast<double>(total.rows));
      cached.x.push_back(static_cast<double>(n));
      cached.y.push_back(static_cast<double>(cached_rows(prompt_len, n)));
    }
    // A line for 1, 2, 4, 8, ... and for the last token: doubling shows the power of growth.
    if ((n & (n - 1)) == 0 || n == num_new)
      table.add_row({with_thousands(n), with_thousands(total.rows), with_thousands(rows),
                     with_thousands(total.scores), with_thousands(scores),
                     with_thousands(cached_rows(prompt_len, n)), fmt::format("{:.1f}", total_ms)});
  }
  out << "\n\nWork up to each output token N after a prompt of P = " << prompt_len
      << ", counted and by the closed form:\n"
      << table.str(2)
      << fmt::format(
             "  {}; rows grow like N^2, q.k products like N^3, a cache makes rows N.",
             equal ? "Every count equals its closed form" : "A COUNT DIFFERS FROM ITS CLOSED FORM");
  if (!options.svg.empty())
    write_file_atomically("--svg", options.svg,
                          to_svg({"Rows through the model",
                                  {"output tokens", Scale::linear},
                                  {"rows in all", Scale::linear},
                                  {counted, cached}}));
  if (!equal) throw std::runtime_error("a count differs from its closed form");
}

}  // namespace kv
