// How much of a memory for KV caches holds tokens, by the way in which requests reserve it.
//
// The policies and the simulator: src/kv/cost/reservation.hpp; the requests, by formula and seed:
// src/kv/cost/request_trace.hpp.
// Run: build/default/bin/reservation_waste
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string>
#include <utility>

#include "kv/check.hpp"
#include "kv/cost/published.hpp"
#include "kv/cost/reservation_report.hpp"
#include "kv/report/options.hpp"
#include "kv/report/output_file.hpp"

namespace {

// 12 GiB for a model of 40 layers with 40 KV heads of 128 in fp16, 819,200 bytes a token. Source:
// Kwon et al. 2023, table 1 (OPT-13B on an A100: 15.7 thousand tokens).
constexpr std::int64_t kDefaultCapacity = 15'728;

struct Options {
  std::int64_t requests = 2000, seed = 1, max_len = 2048, capacity = kDefaultCapacity;
  double rate = 0.0, memory_gib = 12.0;
  std::string shape = "chat", placement = "buddies", model, dtype = "fp16";
  std::string trace, json, csv, svg;
  bool plot = false;
};

void declare(CLI::App& app, Options& o) {
  const auto positive = CLI::Range(std::int64_t{1}, std::int64_t{1'000'000'000'000});
  app.option_defaults()->always_capture_default();
  app.add_option("--requests", o.requests, "requests of the trace")
      ->check(CLI::Range(std::int64_t{1}, kv::kMaxTraceRequests));
  app.add_option("--seed", o.seed, "seed of the trace")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 62));
  app.add_option("--shape", o.shape, "lengths: chat (as ShareGPT) or instruction (as Alpaca)")
      ->check(CLI::IsMember({"chat", "instruction"}));
  app.add_option("--rate", o.rate, "requests that arrive in a decode step; 0: all wait at once")
      ->check(CLI::Range(0.0, 1e6));
  app.add_option("--max-len", o.max_len, "most tokens of a request")
      ->check(CLI::Range(std::int64_t{2}, kv::kMaxTokens));
  auto* capacity = app.add_option("--capacity", o.capacity, "tokens of the memory");
  capacity->check(positive);
  auto* model = app.add_option("--model", o.model,
                               "instead of --capacity: a shape from kv_calculator --list ...");
  model->excludes(capacity);
  app.add_option("--memory", o.memory_gib, "... whose cache has so many GiB ...")
      ->check(CLI::Range(1e-6, 1e9))
      ->needs(model);
  app.add_option("--dtype", o.dtype, "... in this number format")->needs(model);
  app.add_option("--placement", o.placement, "contiguous reservations go by buddies or first-fit")
      ->check(CLI::IsMember({"buddies", "first-fit"}));
  app.add_option("--trace", o.trace,
                 "CSV file with columns prompt_tokens and output_tokens instead of a formula");
  app.add_flag("--plot", o.plot, "draw waste by block size in the terminal");
  app.add_option("--json", o.json, "write the numbers as JSON to this file");
  app.add_option("--csv", o.csv, "write the numbers as CSV to this file");
  app.add_option("--svg", o.svg, "write waste and bookkeeping by block size as SVG to this file");
}

std::int64_t capacity_of(const Options& o) {
  if (o.model.empty()) return o.capacity;
  const auto models = kv::published_models();
  const auto model = std::ranges::find(models, o.model, &kv::PublishedModel::name);
  if (model == models.end())
    throw kv::InputError("--model: no published shape is named '" + o.model +
                         "'; kv_calculator --list shows the names");
  const kv::KvShape& shape = model->kv;
  for (int l = 0; l < shape.num_layers; ++l)
    if (shape.window(l) > 0)
      throw kv::InputError("--model: " + o.model +
                           " keeps a window of its tokens; this simulator counts all of them");
  const std::int64_t bytes = kv::kv_bytes_per_token(shape, kv::kv_format(o.dtype)).total();
  const double tokens = std::floor(o.memory_gib * 0x1p30 / static_cast<double>(bytes));
  if (tokens < 1 || tokens > 1e12)
    throw kv::InputError("--memory: it holds no token of this model, or more than 10^12");
  return static_cast<std::int64_t>(tokens);
}

kv::ReservationStudy work_out(const Options& o) {
  // A range lets NaN through.
  if (std::isnan(o.rate)) throw kv::InputError("--rate: it must be a number");
  if (std::isnan(o.memory_gib)) throw kv::InputError("--memory: it must be a number");
  const std::int64_t capacity = capacity_of(o);
  const auto seed = static_cast<std::uint64_t>(o.seed);
  std::vector<kv::Request> trace;
  std::string name = o.trace;
  if (o.trace.empty()) {
    const kv::LengthShape& shape = o.shape == "chat" ? kv::kChatShape : kv::kInstructionShape;
    trace = kv::make_trace(shape, o.requests, o.max_len, seed);
    name = o.shape + ", seed " + std::to_string(o.seed);
  } else {
    trace = kv::read_trace(o.trace);
  }
  if (o.rate > 0.0) kv::set_arrivals(trace, o.rate, seed + 1);
  const kv::Placement placement =
      o.placement == "buddies" ? kv::Placement::buddies : kv::Placement::first_fit;
  return kv::study_reservations(std::move(trace), name, capacity, o.max_len, placement);
}

void run(const Options& o) {
  for (const auto& [option, path] :
       {std::pair{"--json", &o.json}, {"--csv", &o.csv}, {"--svg", &o.svg}})
    if (!path->empty()) kv::check_writable(option, *path);
  const kv::ReservationStudy study = work_out(o);
  const std::vector<kv::Plot> plots = kv::reservation_plots(study);
  std::cout << kv::reservation_text(study);
  if (o.plot) std::cout << "\n" << kv::to_terminal(plots[0], 100, 20);
  if (!o.json.empty())
    kv::write_file_atomically("--json", o.json, kv::reservation_json(study).str());
  if (!o.csv.empty()) kv::write_file_atomically("--csv", o.csv, kv::reservation_csv(study));
  if (!o.svg.empty()) kv::write_file_atomically("--svg", o.svg, kv::to_svg(plots));
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("How much of a memory for KV caches holds tokens, by how requests reserve it",
               std::filesystem::path(argv[0]).filename().string());
  declare(app, options);
  return kv::parse_and_run(app, argc, argv, [&] { run(options); });
}
