#include "kv/report/side_by_side.hpp"

#include <fmt/format.h>

#include <ostream>

#include "kv/report/output_file.hpp"
#include "kv/report/plot.hpp"
#include "kv/report/table.hpp"

namespace kv {

void show_side_by_side(const Agreement& agreement, const ChapterOptions& options,
                       std::ostream& out) {
  Table table({"position", "rows", "KV read", "KV written", "ms", "rows before",
               "KV written before", "ms before"});
  Series now{"with the cache", {}, {}, true, false, {}};
  Series before{"recomputed", {}, {}, true, false, {}};
  const auto num_steps = static_cast<std::int64_t>(agreement.steps.size());
  constexpr std::int64_t kNumLines = 8;
  for (std::int64_t i = 0; i < num_steps; ++i) {
    const ComparedStep& step = agreement.steps[i];
    now.x.push_back(static_cast<double>(step.seq_len));
    now.y.push_back(step.ms);
    before.x.push_back(static_cast<double>(step.seq_len));
    before.y.push_back(step.previous_ms);
    const bool shown = i == 0 || i == num_steps - 1 ||
                       i * kNumLines / num_steps != (i - 1) * kNumLines / num_steps;
    if (shown)
      table.add_row({with_thousands(step.seq_len), with_thousands(step.work.rows),
                     with_thousands(step.work.kv_bytes_read),
                     with_thousands(step.work.kv_bytes_written), fmt::format("{:.2f}", step.ms),
                     with_thousands(step.previous_work.rows),
                     with_thousands(step.previous_work.kv_bytes_written),
                     fmt::format("{:.2f}", step.previous_ms)});
  }
  const Plot plot{"Time per token against position",
                  {"position of the token", Scale::linear},
                  {"ms per token", Scale::log},
                  {now, before}};
  std::string drawing = to_terminal(plot);
  drawing.pop_back();  // sections end in the middle of a line
  out << "\n\nCost of one token, with the cache and (before) recomputed; bytes of K and V:\n"
      << table.str(2) << "\n"
      << drawing;
  if (!options.svg.empty()) write_file_atomically("--svg", options.svg, to_svg(plot));
}

}  // namespace kv
