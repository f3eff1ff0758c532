#include "sass/goals.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "kv/report/table.hpp"

namespace kv::sass {
namespace {

constexpr bool kAtMost = false;
constexpr bool kAtLeast = true;

// To add a kernel, add its lines.
const Goal kGoals[] = {
    {"",
     "",
     75,
     0,
     {},
     Figure::local_memory,
     kAtMost,
     0,
     "an array that the compiler could not keep in registers turns each use into memory traffic"},
    {"04_tensor_core",
     "tensor_core_kernel",
     80,
     2,
     {},
     Figure::narrow_loads,
     kAtMost,
     0,
     "a narrow load needs as many slots and requests as a wide one, for less"},
    {"05_split_kv",
     "split_kv_kernel",
     75,
     0,
     {},
     Figure::narrow_loads,
     kAtMost,
     0,
     "a narrow load needs as many slots and requests as a wide one, for less"},
    {"05_split_kv",
     "split_kv_kernel",
     80,
     2,
     {},
     Figure::instructions_per_element,
     kAtMost,
     6,
     "an H200 issues about 13.8 for each 16-bit element that its memory delivers; 6 leave room for "
     "stalls"},
    {"05_split_kv",
     "split_kv_kernel",
     80,
     2,
     {},
     Figure::bytes_in_flight_per_sm,
     kAtLeast,
     40 * 1024,
     "latency times bandwidth of an SM (Little's law): fewer, and the memory idles"},
    {"04_tensor_core",
     "tensor_core_kernel",
     80,
     2,
     {64, 128},
     Figure::instructions_per_mma,
     kAtMost,
     5.5,
     "the rest of the loop must fit into the slots that the tensor cores leave free"},
    {"06_grouped",
     "grouped_kernel",
     80,
     0,
     {},
     Figure::narrow_loads,
     kAtMost,
     0,
     "a narrow load needs as many slots and requests as a wide one, for less"},
    {"06_grouped",
     "grouped_kernel",
     80,
     0,
     {},
     Figure::bytes_in_flight_per_sm,
     kAtLeast,
     40 * 1024,
     "latency times bandwidth of an SM (Little's law): fewer, and the memory idles"},
    {"06_grouped",
     "grouped_kernel",
     80,
     2,
     {},
     Figure::instructions_per_element,
     kAtMost,
     3,
     "a quarter of what an H200 issues while its memory delivers an element: groups of up to 16 "
     "are "
     "as fast as one head",
     1},
};

std::string_view name(Figure figure) {
  switch (figure) {
    case Figure::local_memory:
      return "of local memory (bytes of stack and spills, instructions)";
    case Figure::narrow_loads:
      return "global loads of the main loop that are not 16 bytes wide";
    case Figure::instructions_per_element:
      return "instructions per K/V element";
    case Figure::instructions_per_mma:
      return "instructions per tensor-core instruction";
    case Figure::bytes_in_flight_per_sm:
      return "bytes of loads in flight per SM";
  }
  return "";
}

std::optional<double> value(const KernelRow& row, Figure figure) {
  switch (figure) {
    case Figure::local_memory:
      return row.resources.stack_bytes + row.resources.spill_bytes + row.local_instructions;
    case Figure::narrow_loads:
      // Without a wide load at all, none of those that are meant was found.
      if (!row.loop || row.loop->wide_global_loads == 0) return std::nullopt;
      return row.loop->global_loads - row.loop->wide_global_loads;
    case Figure::instructions_per_element:
      return row.instructions_per_element();
    case Figure::instructions_per_mma:
      return row.instructions_per_mma();
    case Figure::bytes_in_flight_per_sm:
      return static_cast<double>(row.bytes_in_flight_per_sm());
  }
  return std::nullopt;
}

bool counts_instructions(Figure figure) {
  return figure == Figure::instructions_per_element || figure == Figure::instructions_per_mma;
}

bool falls_under(const KernelRow& row, const Goal& goal) {
  return (goal.file.empty() || row.file == goal.file) &&
         (goal.kernel.empty() || row.name.base == goal.kernel) &&
         row.architecture >= goal.min_architecture &&
         (goal.element_bytes == 0 || row.name.element_bytes() == goal.element_bytes) &&
         (goal.head_tiles == 0 || row.name.head_tiles() == goal.head_tiles) &&
         (goal.head_dims.empty() ||
          std::ranges::find(goal.head_dims, row.name.head_dim()) != goal.head_dims.end());
}

Verdict check(const KernelRow& row, const Goal& goal) {
  const std::string where =
      fmt::format("{}, {}, sm_{}: ", row.file, row.name.str(), row.architecture);
  const std::string wanted = fmt::format("{}, wanted {} {}", name(goal.figure),
                                         goal.at_least ? "at least" : "at most", goal.bound);
  const std::optional<double> found = value(row, goal.figure);
  if (!found) return {false, where + "the loop in which it loads K and V was not found; " + wanted};
  if (counts_instructions(goal.figure) && row.loop->has_inner_loop)
    return {false, where + "the main loop has another inside and cannot be counted; " + wanted};
  const bool met = goal.at_least ? *found >= goal.bound : *found <= goal.bound;
  return {met, where + fmt::format("{:.4g} {}", *found, wanted)};
}

}  // namespace

std::span<const Goal> goals() { return kGoals; }

std::vector<Verdict> check_goals(std::span<const KernelRow> rows, std::span<const Goal> goals) {
  std::vector<Verdict> verdicts;
  for (const Goal& goal : goals) {
    bool any = false;
    for (const KernelRow& row : rows) {
      if (!falls_under(row, goal)) continue;
      any = true;
      verdicts.push_back(check(row, goal));
    }
    if (!any)
      verdicts.push_back({false, fmt::format("{} {}: no kernel falls under the goal on {}; was it "
                                             "renamed?",
                                             goal.file, goal.kernel, name(goal.figure))});
  }
  return verdicts;
}

}  // namespace kv::sass
