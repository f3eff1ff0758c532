#include "gpu/report.hpp"

#include <fmt/format.h>

#include "kv/report/table.hpp"

namespace kv_bench {
namespace {

using kv::Align, kv::Json, kv::Table;

std::string step_text(const Case& what) {
  return fmt::format("{} {}", static_cast<int>(what.step), kv::name(what.step));
}

std::string limits_text(const LimitPair& limits) {
  const Limits& l = limits.before;
  return fmt::format(
      "Measured limits (before and after the cases; shares are of the higher one):\n"
      "  copy of {} on the device, read + written bytes: {:.0f}, {:.0f} GB/s\n"
      "  {} matrix products in registers by mma.sync: {:.0f}, {:.0f} TFLOP/s\n\n",
      kv::decimal_bytes(l.copy_bytes / 2), limits.before.copy_rate() / 1e9,
      limits.after.copy_rate() / 1e9, kv::info(l.matrix_dtype).name,
      limits.before.matrix_rate() / 1e12, limits.after.matrix_rate() / 1e12);
}

std::string goal_text(const Case& what, const Rating& rating) {
  if (what.goal.kind == Goal::Kind::none) return "";
  const char* verdict = !rating.goal_met ? "not compared" : *rating.goal_met ? "met" : "not met";
  return fmt::format("{}: {}", what.goal.text(), verdict);
}

Table gpu_table(const LimitPair& limits, std::span<const Result> results) {
  Table table({"step", "case", "K, V", "ms", "rate", "", "share", "goal on an H200"},
              {Align::left, Align::left, Align::left, Align::right, Align::right, Align::left,
               Align::right, Align::left});
  for (const Result& result : results) {
    if (!result.ran()) continue;
    const Case& what = result.what;
    const Rating rating = rate(result, limits, results);
    const bool decode = what.is_decode();
    table.add_row({step_text(what), what.name, std::string(kv::info(what.shape.kv_dtype).name),
                   fmt::format("{:.3f}", result.timing.median_ms),
                   fmt::format("{:.0f}", rating.rate / (decode ? 1e9 : 1e12)),
                   decode ? "GB/s" : "TFLOP/s", fmt::format("{:.0f} %", 100.0 * rating.share),
                   goal_text(what, rating)});
  }
  return table;
}

// No rate, no share, no goal: the times are those of a CPU that plays a GPU.
Table emulated_table(std::span<const Result> results) {
  Table table({"step", "case", "K, V", "bytes", "operations", "CPU's ms"},
              {Align::left, Align::left, Align::left});
  for (const Result& result : results) {
    if (!result.ran()) continue;
    const Case& what = result.what;
    table.add_row({step_text(what), what.name, std::string(kv::info(what.shape.kv_dtype).name),
                   kv::with_thousands(what.bytes()),
                   kv::with_thousands(static_cast<std::int64_t>(what.flops())),
                   fmt::format("{:.1f}", result.timing.median_ms)});
  }
  return table;
}

Json timing_json(const Timing& timing) {
  Json json = Json::object();
  json.set("median_ms", timing.median_ms).set("least_ms", timing.least_ms);
  json.set("most_ms", timing.most_ms).set("repetitions", timing.repetitions);
  return json;
}

Json limits_json(const LimitPair& limits) {
  const auto one = [](const Limits& l) {
    Json json = Json::object();
    json.set("copy_bytes", l.copy_bytes).set("copy_by_kernel", timing_json(l.copy));
    json.set("copy_by_runtime", timing_json(l.runtime_copy));
    json.set("matrix_dtype", kv::info(l.matrix_dtype).name).set("matrix_flops", l.matrix_flops);
    json.set("matrix", timing_json(l.matrix));
    return json;
  };
  Json json = Json::object();
  json.set("copy_gb_per_second", limits.copy_rate() / 1e9);
  json.set("matrix_tflops", limits.matrix_rate() / 1e12);
  json.set("before", one(limits.before)).set("after", one(limits.after));
  return json;
}

void add_shape(Json& json, const Case& what) {
  const kv::HeadConfig& heads = what.shape.heads;
  json.set("kv_dtype", kv::info(what.shape.kv_dtype).name);
  json.set("num_q_heads", heads.num_q_heads).set("num_kv_heads", heads.num_kv_heads);
  json.set("head_dim", heads.head_dim).set("scale", double{what.shape.scale});
  json.set("causal", what.shape.causal);
  json.set("batch", static_cast<int>(what.sequences.size()));
  json.set("uniform", what.is_uniform());
  Json q_lens = Json::array(), kv_lens = Json::array();
  for (const kv::SequenceRows& rows : what.sequences) {
    q_lens.push(rows.q_len);
    kv_lens.push(rows.kv_len);
  }
  json.set("q_lens", q_lens).set("kv_lens", kv_lens);
  json.set("bytes", what.bytes()).set("flops", what.flops());
}

Json case_json(const Result& result, const LimitPair* limits, std::span<const Result> all) {
  const Case& what = result.what;
  Json json = Json::object();
  json.set("name", what.name).set("step", static_cast<int>(what.step));
  json.set("step_name", kv::name(what.step));
  add_shape(json, what);
  if (!result.ran()) return json.set("skipped", result.skipped);
  json.set("workspace_bytes", result.workspace_bytes);
  json.set("sample_error", result.sample_error).set("sample_bound", result.sample_bound);
  if (limits == nullptr) return json.set("emulated_on_cpu", timing_json(result.timing));
  const Rating rating = rate(result, *limits, all);
  json.set("time", timing_json(result.timing));
  json.set("unit", what.is_decode() ? "GB/s" : "TFLOP/s");
  json.set("rate", rating.rate / (what.is_decode() ? 1e9 : 1e12));
  json.set("share_of", what.is_decode() ? "copy" : "matrix products").set("share", rating.share);
  json.set("floor_ms", rating.floor_ms).set("goal", what.goal.text());
  return json.set("goal_met", rating.goal_met ? Json(*rating.goal_met) : Json());
}

}  // namespace

std::string to_text(const Circumstances& circumstances, const LimitPair& limits,
                    std::span<const Result> results) {
  std::string text =
      fmt::format("Attention kernels on {}, {}\n", circumstances.device, circumstances.date);
  if (circumstances.is_gpu()) {
    text += limits_text(limits) + gpu_table(limits, results).str(2);
    text += "  Medians. Bytes are q, K, V and out, each once; operations those of visible keys.\n";
  } else {
    text +=
        "EMULATED on a CPU, tiny shapes: this tries the program out. Its times say nothing of "
        "a GPU.\n\n" +
        emulated_table(results).str(2);
  }
  for (const Result& result : results) {
    const std::string name = step_text(result.what) + ", " + result.what.name;
    if (!result.ran()) text += fmt::format("  skipped: {}: {}\n", name, result.skipped);
    if (!result.is_right())
      text += fmt::format("  WRONG: {}: off by {:.3g}, allowed {:.3g}\n", name, result.sample_error,
                          result.sample_bound);
  }
  return text;
}

kv::Json to_json(const Circumstances& circumstances, const LimitPair& limits,
                 std::span<const Result> results) {
  const bool is_gpu = circumstances.is_gpu();
  Json json = Json::object();
  json.set("what", is_gpu ? "attention kernels on a GPU"
                          : "attention kernels EMULATED on a CPU: no time here is a GPU's");
  json.set("emulated", !is_gpu).set("date", circumstances.date);
  json.set("command", circumstances.command);
  Json machine = Json::object();
  machine.set("device", circumstances.device).set("backend", kv::name(circumstances.backend));
  machine.set("compute_capability", circumstances.compute_capability);
  machine.set("num_multiprocessors", circumstances.num_multiprocessors);
  machine.set("driver", circumstances.driver);
  json.set("machine", machine).set("limits", is_gpu ? limits_json(limits) : Json());
  Json list = Json::array();
  for (const Result& result : results)
    list.push(case_json(result, is_gpu ? &limits : nullptr, results));
  return json.set("cases", list);
}

}  // namespace kv_bench
