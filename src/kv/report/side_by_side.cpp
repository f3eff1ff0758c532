#include "kv/report/side_by_side.hpp"

#include <fmt/format.h>

#include <ostream>

#include "kv/report/output_file.hpp"
#include "kv/report/plot.hpp"
#include "kv/report/table.hpp"

namespace kv {

namespace {

constexpr std::int64_t kNumLines = 8;  // of the table, spread over the run

std::vector<std::string> cells(const Work& work, double ms) {
  return {with_thousands(work.rows), decimal_bytes(work.kv_bytes_read),
          decimal_bytes(work.kv_bytes_written), fmt::format("{:.2f}", ms)};
}

Table table_of(const std::vector<ComparedStep>& steps, const std::string& now,
               const std::string& before) {
  Table table({"position", now + ": rows", "KV read", "written", "ms", before + ": rows", "KV read",
               "written", "ms"});
  const auto num_steps = static_cast<std::int64_t>(steps.size());
  for (std::int64_t i = 0; i < num_steps; ++i) {
    const bool shown = i == 0 || i == num_steps - 1 ||
                       i * kNumLines / num_steps != (i - 1) * kNumLines / num_steps;
    if (!shown) continue;
    std::vector<std::string> row = {with_thousands(steps[i].seq_len)};
    for (auto& cell : cells(steps[i].work, steps[i].ms)) row.push_back(std::move(cell));
    for (auto& cell : cells(steps[i].previous_work, steps[i].previous_ms))
      row.push_back(std::move(cell));
    table.add_row(std::move(row));
  }
  return table;
}

}  // namespace

void show_side_by_side(const Agreement& agreement, const std::string& now,
                       const std::string& before, const ChapterOptions& options,
                       std::ostream& out) {
  Series now_ms{now, {}, {}, true, false, {}};
  Series before_ms{before, {}, {}, true, false, {}};
  for (const ComparedStep& step : agreement.steps) {
    now_ms.x.push_back(static_cast<double>(step.seq_len));
    now_ms.y.push_back(step.ms);
    before_ms.x.push_back(static_cast<double>(step.seq_len));
    before_ms.y.push_back(step.previous_ms);
  }
  const Plot plot{"Time per token against position",
                  {"position of the token", Scale::linear},
                  {"ms per token", Scale::log},
                  {now_ms, before_ms}};
  std::string drawing = to_terminal(plot);
  drawing.pop_back();  // sections end in the middle of a line
  out << "\n\nCost of one token in either chapter; bytes of K and V:\n"
      << table_of(agreement.steps, now, before).str(2) << "\n"
      << drawing;
  if (!options.svg.empty()) write_file_atomically("--svg", options.svg, to_svg(plot));
}

}  // namespace kv
