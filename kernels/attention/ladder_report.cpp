#include "attention/ladder_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <random>
#include <stdexcept>
#include <utility>

#include "attention/traffic.hpp"
#include "emulator/emulator.hpp"
#include "kv/cache/store_rows.hpp"
#include "kv/cost/roofline.hpp"
#include "kv/report/output_file.hpp"
#include "kv/report/plot.hpp"
#include "kv/report/table.hpp"

namespace kv {

namespace {

// Of the GPU whose roofline is drawn: steps 5 and 6 are counted with the parts that they would get
// there.
constexpr int kNumMultiprocessors = 132;  // H100 SXM data sheet

constexpr int kLadderBlock = 16;  // tokens of a block in step 7

std::vector<float> random_values(std::int64_t count, std::mt19937& random) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& x : values) x = static_cast<float>(random() >> 8) * 0x1p-23f - 1.0f;
  return values;
}

DeviceBuffer<std::byte> stored(Device& device, const std::vector<float>& values, DType dtype) {
  std::vector<std::byte> bytes(values.size() * info(dtype).block_bytes);
  store_rows(values.data(), static_cast<std::int64_t>(values.size()), dtype, bytes.data());
  return {device, std::span<const std::byte>(bytes)};
}

bool is_decode_step(AttentionStep step) { return step >= AttentionStep::split_kv; }

// Step 7 finds the same rows in another order: in blocks, the last one first.
AttentionPlan make_plan(Device& checked, AttentionStep step, const AttentionShape& shape,
                        const SequenceRows& rows, const SplitOptions& split) {
  if (step != AttentionStep::paged) return {checked, step, shape, {&rows, 1}, split};
  const int num_blocks = (rows.kv_len + kLadderBlock - 1) / kLadderBlock;
  std::vector<std::int32_t> ids;
  for (int id = num_blocks - 1; id >= 0; --id) ids.push_back(id);
  return {checked, shape, {&rows, 1}, {ids, num_blocks, kLadderBlock, num_blocks}, split};
}

// How a tooltip names a step.
std::string label(const LadderRow& row) {
  return fmt::format("{} ({}, {})", name(row.step), row.q_len == 1 ? "decode" : "prefill",
                     info(row.kv_dtype).name);
}

Table table_of(const std::vector<LadderRow>& rows) {
  Table table({"step", "", "K, V", "moved", "closed form", "must move", "ratio", "scratch",
               "sectors/load", "conflicts", "FLOP/B"},
              {Align::right, Align::left, Align::left});
  for (const LadderRow& row : rows) {
    std::string sectors = fmt::format("{:.2f}", row.sectors_per_load);
    if (row.sectors_per_load > row.best_sectors)
      sectors += fmt::format(" > {:.2f}", row.best_sectors);
    table.add_row({fmt::format("{}", static_cast<int>(row.step)), std::string(name(row.step)),
                   std::string(info(row.kv_dtype).name), with_thousands(row.bytes_moved),
                   with_thousands(row.bytes_predicted), with_thousands(row.bytes_needed),
                   fmt::format("{:.2f}", static_cast<double>(row.bytes_moved) /
                                             static_cast<double>(row.bytes_needed)),
                   with_thousands(row.scratch_bytes), std::move(sectors),
                   with_thousands(row.bank_conflicts), fmt::format("{:.2f}", row.intensity())});
  }
  return table;
}

Plot bytes_plot(const std::vector<LadderRow>& rows) {
  Series moved{"moved", {}, {}, false, true, {}}, needed{"must move", {}, {}, false, true, {}};
  std::string names;
  for (const LadderRow& row : rows) {
    const int number = static_cast<int>(row.step);
    names += fmt::format("{}{} {}", names.empty() ? "" : ", ", number, name(row.step));
    moved.x.push_back(number);
    moved.y.push_back(static_cast<double>(row.bytes_moved));
    moved.notes.push_back(fmt::format("{}: {} moved", label(row), decimal_bytes(row.bytes_moved)));
    needed.x.push_back(number);
    needed.y.push_back(static_cast<double>(row.bytes_needed));
    needed.notes.push_back(
        fmt::format("{}: {} must move", label(row), decimal_bytes(row.bytes_needed)));
  }
  return {"Bytes through global memory, step by step",
          {"step: " + names, Scale::linear},
          {"bytes", Scale::log},
          {moved, needed}};
}

Plot roofline_plot(const std::vector<LadderRow>& rows) {
  const Machine& tensor = published_device("h100");
  // In fp32 steps multiply outside the tensor cores, which have a lower roof.
  Machine fp32 = tensor;
  fp32.flops_per_second = 67e12;  // the same data sheet
  Plot plot{"The steps on the roofline of an H100, caches left out",
            {"operations a byte", Scale::log},
            {"attainable operations a second", Scale::log},
            {}};
  for (const Machine* machine : {static_cast<const Machine*>(&fp32), &tensor}) {
    Series roof{machine == &fp32 ? "H100, fp32" : "H100, tensor cores", {}, {}, true, false, {}};
    for (const double intensity : {0.1, machine->ridge(), 1000.0}) {
      roof.x.push_back(intensity);
      roof.y.push_back(std::min(machine->flops_per_second, intensity * machine->bytes_per_second));
    }
    plot.series.push_back(std::move(roof));
  }
  for (const LadderRow& row : rows) {
    const Machine& machine = rounds_products(row.step, row.kv_dtype) ? tensor : fp32;
    const double rate =
        std::min(machine.flops_per_second, row.intensity() * machine.bytes_per_second);
    plot.series.push_back(
        {fmt::format("{} {}", static_cast<int>(row.step), name(row.step)),
         {row.intensity()},
         {rate},
         false,
         true,
         {fmt::format("{}: {} operations a byte", label(row), four_digits(row.intensity()))}});
  }
  return plot;
}

}  // namespace

LadderRow measure_step(AttentionStep step, const AttentionShape& shape, int q_len, int kv_len) {
  shape.validate(step);
  require(q_len >= 1 && kv_len >= q_len, "a step needs query rows, and each its own key");
  const HeadConfig& heads = shape.heads;
  std::mt19937 random(1);
  Device& checked = device(Backend::checked);
  const DeviceBuffer<float> q(
      checked, std::span<const float>(random_values(std::int64_t{q_len} * heads.q_dim(), random)));
  // Whole blocks: only step 7 reaches into the last one's end.
  const std::int64_t num_rows = (kv_len + kLadderBlock - 1) / kLadderBlock * kLadderBlock;
  const DeviceBuffer<std::byte> k =
      stored(checked, random_values(num_rows * heads.kv_dim(), random), shape.kv_dtype);
  const DeviceBuffer<std::byte> v =
      stored(checked, random_values(num_rows * heads.kv_dim(), random), shape.kv_dtype);
  DeviceBuffer<float> out(checked, q.size());
  const SequenceRows rows{0, 0, q_len, kv_len};
  SplitOptions split;
  split.num_slots = 2 * kNumMultiprocessors;
  const auto plan = make_plan(checked, step, shape, rows, split);

  emulator::reset_counters();
  plan.run(q.data(), k.data(), v.data(), out.data());
  checked.synchronize();
  emulator::Counters counted;
  for (const auto& [kernel, counters] : emulator::counters_by_kernel()) counted.add(counters);

  LadderRow row;
  row.step = step;
  row.kv_dtype = shape.kv_dtype;
  row.q_len = q_len;
  row.kv_len = kv_len;
  row.bytes_moved = counted_bytes(counted);
  row.bytes_predicted =
      predicted_traffic(step, shape, {&rows, 1}, false, plan.split_plan()).total();
  row.bytes_needed = least_traffic(shape, {&rows, 1}, false).total();
  row.scratch_bytes = static_cast<std::int64_t>(counted.of(emulator::Traffic::global_store).bytes -
                                                out.size() * sizeof(float));
  const emulator::Tally& loads = counted.of(emulator::Traffic::global_load);
  row.sectors_per_load = counted.sectors_per_request(emulator::Traffic::global_load);
  row.best_sectors = static_cast<double>(loads.ideal) / static_cast<double>(loads.requests);
  row.bank_conflicts = static_cast<std::int64_t>(counted.bank_conflicts());
  for (int t = 0; t < q_len; ++t)
    row.flops += std::int64_t{4} * heads.q_dim() * visible_keys(t, rows, shape.causal);
  return row;
}

std::vector<LadderRow> walk_ladder(const HeadConfig& heads, DType dtype, int only_step) {
  std::vector<LadderRow> rows;
  for (const AttentionStep step : kAttentionSteps) {
    if (only_step > 0 && static_cast<int>(step) != only_step) continue;
    AttentionShape shape{heads, dtype, 1.0f / std::sqrt(static_cast<float>(heads.head_dim)), true};
    if (step == AttentionStep::tensor_core && dtype == DType::f32) shape.kv_dtype = DType::bf16;
    const bool decode = is_decode_step(step);
    rows.push_back(
        measure_step(step, shape, decode ? 1 : kPrefillRows, decode ? kDecodeKeys : kPrefillRows));
  }
  return rows;
}

void show_ladder(const HeadConfig& heads, const ChapterOptions& options, int step,
                 std::ostream& out) {
  std::vector<LadderRow> rows;
  try {
    rows = walk_ladder(heads, options.kv_dtype, step);
  } catch (const InputError& error) {
    if (!options.svg.empty()) throw;
    out << "\n\nNo ladder: " << error.what();
    return;
  }
  const bool equal = std::ranges::all_of(
      rows, [](const LadderRow& row) { return row.bytes_predicted == row.bytes_moved; });
  out << fmt::format(
             "\n\nThe ladder, counted in the emulator, where no cache helps: {} query heads, {} KV "
             "heads of {};\nsteps 1 to 4: {} causal query rows over as many keys; from step 5 on: "
             "one new token over {} keys; bytes:\n",
             heads.num_q_heads, heads.num_kv_heads, heads.head_dim, kPrefillRows,
             with_thousands(kDecodeKeys))
      << table_of(rows).str(2)
      << (equal ? "  Every count of bytes moved equals its closed form."
                : "  A COUNT DIFFERS FROM ITS CLOSED FORM.");
  if (!options.svg.empty()) {
    const Plot plots[] = {bytes_plot(rows), roofline_plot(rows)};
    write_file_atomically("--svg", options.svg, to_svg(plots));
  }
  if (!equal) throw std::runtime_error("a count differs from its closed form");
}

}  // namespace kv
