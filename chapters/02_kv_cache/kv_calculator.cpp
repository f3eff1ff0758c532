// What the KV cache of a model costs, and what a GPU can do with it.
//
// Bytes per token follow from the published shape alone (src/kv/cost/kv_bytes.hpp); the roofline
// says what limits decode and prefill (src/kv/cost/roofline.hpp).
// Run: build/default/bin/kv_calculator --model llama-3-8b --context 8192 --batch 8
#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "kv/cost/cost_report.hpp"
#include "kv/cost/gguf_shape.hpp"
#include "kv/report/options.hpp"
#include "kv/report/output_file.hpp"

namespace {

struct Options {
  std::string model = "llama-3-8b";
  std::int64_t context = 8192, batch = 1, block_size = 1;
  std::string dtype = "fp16", weights_dtype, gpu;
  std::optional<std::string> json, svg;
  bool list = false, plot = false, measure = true;
};

void declare(CLI::App& app, Options& o) {
  app.option_defaults()->always_capture_default();
  const auto positive = CLI::Range(std::int64_t{1}, std::int64_t{1'000'000'000'000'000});
  app.add_option("--model", o.model, "a name from --list, or the path of a .gguf file");
  app.add_flag("--list", o.list, "list the published shapes and end");
  app.add_option("--context", o.context, "tokens of each sequence")->check(positive);
  app.add_option("--batch", o.batch, "sequences")->check(positive);
  app.add_option("--dtype", o.dtype,
                 "format of the cache: fp32, fp16, bf16, fp8, int8 (one fp32 scale a token and KV "
                 "head, for K and V each) or int4 (one fp16 scale for 32 elements)");
  app.add_option("--weights-dtype", o.weights_dtype,
                 "format of the weights, int8 without scales (default fp16; of a file its own)");
  app.add_option("--gpu", o.gpu, "only this GPU: h100, h200, a100, 4090 or t4");
  app.add_option("--block-size", o.block_size, "cache in blocks of so many tokens")
      ->check(positive);
  app.add_flag("--measure,!--no-measure", o.measure, "measure this machine's roofline (default)");
  app.add_flag("--plot", o.plot, "draw the roofline in the terminal");
  app.add_option("--json", o.json, "write the numbers as JSON to this file");
  app.add_option("--svg", o.svg, "write the roofline as SVG to this file");
}

// An error in the value of an option names the option.
template <typename Lookup>
auto for_option(const std::string& option, Lookup lookup) -> decltype(lookup()) {
  try {
    return lookup();
  } catch (const kv::InputError& error) {
    throw kv::InputError(option + ": " + error.what());
  }
}

kv::CostReport work_out(const Options& o) {
  kv::Workload work;
  work.format = for_option("--dtype", [&] { return kv::kv_format(o.dtype); });
  work.context = o.context;
  work.batch = o.batch;
  std::string weights = o.weights_dtype.empty() ? "fp16" : o.weights_dtype;
  const kv::KvFormat format = for_option("--weights-dtype", [&] { return kv::kv_format(weights); });
  if (o.model.ends_with(".gguf") || std::filesystem::is_regular_file(o.model)) {
    const kv::GgufShape shape = kv::gguf_shape(*kv::GgufFile::open(o.model));
    work.model = shape.model;
    work.weight_bytes = shape.weight_bytes;
  } else {
    work.model = for_option("--model", [&] { return kv::published_model(o.model); });
  }
  if (work.weight_bytes > 0 && o.weights_dtype.empty())
    weights = "as stored";
  else
    work.weight_bytes = kv::weight_bytes(work.model.params, format);
  return for_option("--context, --batch, --block-size",
                    [&] { return kv::CostReport(work, weights, o.block_size); });
}

void run(const Options& o) {
  if (o.list) {
    std::cout << kv::list_text();
    return;
  }
  if (o.json) kv::check_writable("--json", *o.json);
  if (o.svg) kv::check_writable("--svg", *o.svg);
  std::vector<kv::Machine> gpus(kv::published_devices().begin(), kv::published_devices().end());
  if (!o.gpu.empty()) gpus = {for_option("--gpu", [&] { return kv::published_device(o.gpu); })};
  const kv::CostReport report = work_out(o);

  std::optional<kv::Machine> measured;
  if (o.measure) measured = kv::measure_this_machine();
  const kv::Machine* machine = measured ? &*measured : nullptr;

  std::cout << kv::cost_text(report, gpus, machine);
  const kv::Plot plot = kv::roofline_plot(report, gpus, machine);
  if (o.plot) std::cout << "\n" << kv::to_terminal(plot, 100, 20);
  if (o.json)
    kv::write_file_atomically("--json", *o.json, kv::cost_json(report, gpus, machine).str());
  if (o.svg) kv::write_file_atomically("--svg", *o.svg, kv::to_svg(plot));
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("What the KV cache of a model costs, and where it sits on the roofline",
               std::filesystem::path(argv[0]).filename().string());
  declare(app, options);
  return kv::parse_and_run(app, argc, argv, [&] { run(options); });
}
