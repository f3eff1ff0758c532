#include "kv/cost/cost_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "kv/report/table.hpp"

namespace kv {
namespace {

std::string billions(std::int64_t params) {
  const double value = static_cast<double>(params);
  return params >= 1'000'000'000 ? four_digits(value / 1e9) + " billion"
                                 : four_digits(value / 1e6) + " million";
}

std::string describe(const PublishedModel& model) {
  const KvShape& kv = model.kv;
  std::string text =
      fmt::format("{}: {} layers, {} query heads, ", model.name, kv.num_layers, model.num_q_heads);
  if (kv.latent())
    text += fmt::format("a latent of {} + {} (MLA)", kv.kv_lora_rank, kv.qk_rope_head_dim);
  else
    text += fmt::format("{} KV heads of {}", kv.num_kv_heads, kv.head_dim);
  text += ", " + billions(model.params) + " parameters";
  if (model.num_experts > 0) text += " (" + billions(model.active_params) + " active)";
  text += "\nsource: " + model.source + "\n";
  if (!model.note.empty()) text += model.note + "\n";
  return text;
}

bool slides(const CostReport& report) {
  const auto& windows = report.workload.model.kv.windows;
  return std::any_of(windows.begin(), windows.end(), [](int w) { return w > 0; });
}

std::string sizes_text(const CostReport& report) {
  const Workload& w = report.workload;
  std::string text = fmt::format(
      "KV cache in {}, {} tokens of context, batch of {}{}\n", w.format.name,
      with_thousands(w.context), with_thousands(w.batch),
      report.block_size > 1
          ? fmt::format(", whole blocks of {} tokens", with_thousands(report.block_size))
          : "");
  Table table({"", "bytes", "GB = 10^9", "GiB = 2^30"});
  const auto row = [&](const std::string& name, std::int64_t bytes) {
    table.add_row({name, with_thousands(bytes), decimal_bytes(bytes), binary_bytes(bytes)});
  };
  row(slides(report) ? "per token, below the window" : "per token", report.per_token.total());
  row("per sequence", report.per_sequence.total());
  row(fmt::format("batch of {}", with_thousands(w.batch)), report.total.total());
  if (report.total.scales > 0) {
    row("  of it numbers", report.total.elements);
    row("  of it scales", report.total.scales);
  }
  row("weights (" + report.weights_format + ")", w.weight_bytes);
  return text + table.str(2) +
         fmt::format(
             "The caches of the batch take {:.3g} times the bytes of the weights.\n",
             static_cast<double>(report.total.total()) / static_cast<double>(w.weight_bytes));
}

std::string fits_text(const CostReport& report, std::span<const Machine> gpus) {
  const Workload& w = report.workload;
  Table table({"GPU", "memory", "left beside the weights", "sequences that fit"});
  for (const Machine& gpu : gpus) {
    const auto memory = static_cast<std::int64_t>(gpu.memory_bytes);
    const std::int64_t left = memory - w.weight_bytes;
    const std::int64_t fit = sequences_that_fit(gpu, w.weight_bytes, report.per_sequence.total());
    table.add_row({gpu.name, format_bytes(memory),
                   left > 0 ? format_bytes(left) : "the weights do not fit", with_thousands(fit)});
  }
  return fmt::format(
             "Sequences of {} tokens that fit one GPU (nothing set aside for activations)\n",
             with_thousands(w.context)) +
         table.str(2);
}

std::string operations(double flops) {
  if (flops < 1e9) return four_digits(flops / 1e6) + " MFLOP";
  return flops < 1e12 ? four_digits(flops / 1e9) + " GFLOP" : four_digits(flops / 1e12) + " TFLOP";
}

std::string intensity_text(const char* name, const StepCost& cost) {
  return fmt::format(
      "  {:<8} {} on {} of weights and {} of cache: {} FLOP a byte\n", name, operations(cost.flops),
      decimal_bytes(static_cast<std::int64_t>(cost.weight_bytes)),
      decimal_bytes(static_cast<std::int64_t>(cost.kv_bytes)), four_digits(cost.intensity()));
}

std::string roofline_text(const CostReport& report, const std::vector<Machine>& devices) {
  std::string text = "Arithmetic intensity of one decode step and of the prefill of the batch\n" +
                     intensity_text("decode", report.decode) +
                     intensity_text("prefill", report.prefill);
  Table table({"roofline", "GB/s", "TFLOP/s", "ridge, FLOP/B", "decode bound by", "at best",
               "tokens/s", "prefill bound by", "at best"},
              {Align::left, Align::right, Align::right, Align::right, Align::left, Align::right,
               Align::right, Align::left, Align::right});
  for (const Machine& device : devices) {
    const RooflinePoint decode = place(report.decode, device);
    const RooflinePoint prefill = place(report.prefill, device);
    table.add_row({device.name, four_digits(device.bytes_per_second / 1e9),
                   four_digits(device.flops_per_second / 1e12), four_digits(device.ridge()),
                   decode.memory_bound ? "memory" : "arithmetic", duration(decode.seconds),
                   four_digits(static_cast<double>(report.workload.batch) / decode.seconds),
                   prefill.memory_bound ? "memory" : "arithmetic", duration(prefill.seconds)});
  }
  return text + table.str(2);
}

}  // namespace

std::string cost_text(const CostReport& report, std::span<const Machine> gpus,
                      const Machine* machine) {
  std::string text = describe(report.workload.model) + "\n" + sizes_text(report) + "\n" +
                     fits_text(report, gpus) + "\n" +
                     roofline_text(report, with_machine(gpus, machine));
  text += "GPU rates are those of dense fp16/bf16; the times are lower bounds, not predictions.\n";
  if (machine != nullptr) text += "This machine: " + machine->source + ".\n";
  return text;
}

Plot roofline_plot(const CostReport& report, std::span<const Machine> gpus,
                   const Machine* machine) {
  Plot plot;
  plot.title = fmt::format("{} on the roofline: {} tokens of context, batch of {}",
                           report.workload.model.name, with_thousands(report.workload.context),
                           with_thousands(report.workload.batch));
  plot.x = {"arithmetic intensity, FLOP a byte", Scale::log};
  plot.y = {"attainable FLOP a second", Scale::log};
  Series decode{"decode", {}, {}, false, true, {}}, prefill{"prefill", {}, {}, false, true, {}};
  const auto add = [](Series& series, const Machine& device, double intensity, const char* what) {
    const double rate = std::min(device.flops_per_second, intensity * device.bytes_per_second);
    series.x.push_back(intensity);
    series.y.push_back(rate);
    series.notes.push_back(fmt::format("{} on {}: {} FLOP a byte, {} a second", what, device.name,
                                       four_digits(intensity), operations(rate)));
  };
  const double left = std::min(0.1, report.decode.intensity());
  const double right = std::max(1e5, report.prefill.intensity());
  for (const Machine& device : with_machine(gpus, machine)) {
    Series roof{device.name, {}, {}, true, false, {}};
    add(roof, device, left, "bandwidth");
    add(roof, device, device.ridge(), "ridge");
    add(roof, device, right, "peak");
    plot.series.push_back(std::move(roof));
    add(decode, device, report.decode.intensity(), "decode");
    add(prefill, device, report.prefill.intensity(), "prefill");
  }
  plot.series.push_back(std::move(decode));
  plot.series.push_back(std::move(prefill));
  return plot;
}

std::string list_text() {
  Table table(
      {"model", "layers", "KV heads", "head_dim", "bytes per token, fp16", "parameters", "source"},
      {Align::left, Align::right, Align::right, Align::right, Align::right, Align::right,
       Align::left});
  for (const PublishedModel& model : published_models()) {
    const KvShape& kv = model.kv;
    table.add_row({model.name, fmt::format("{}", kv.num_layers),
                   kv.latent() ? "MLA" : fmt::format("{}", kv.num_kv_heads),
                   kv.latent() ? fmt::format("{}+{}", kv.kv_lora_rank, kv.qk_rope_head_dim)
                               : fmt::format("{}", kv.head_dim),
                   with_thousands(kv_bytes_per_token(kv, kv_format("fp16")).total()),
                   billions(model.params), model.source});
  }
  return table.str();
}

}  // namespace kv
