// How fast the attention kernels are on a GPU, as shares of what the same GPU does at best.
//
// The two limits, a copy in device memory and matrix products in registers, are measured in the
// same run, before and after the kernels. Goals are printed beside each case, never asserted.
//
// Run: ./kv bench --device gpu, or build/default/bin/bench_gpu --json gpu.json
// With --device emulated it tries itself out on tiny shapes without a GPU; those times are a CPU's.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include "gpu/report.hpp"
#include "kv/report/options.hpp"
#include "kv/report/output_file.hpp"

namespace {

using namespace kv_bench;

// The first line of a command's output, or nothing.
std::string first_line(const char* command) {
  std::string line;
  FILE* pipe = popen(command, "r");
  if (pipe == nullptr) return line;
  char buffer[256];
  if (fgets(buffer, sizeof(buffer), pipe) != nullptr) line = buffer;
  if (pclose(pipe) != 0) return "";
  while (!line.empty() && line.back() == '\n') line.pop_back();
  return line;
}

Circumstances circumstances_of(const kv::Device& device, int argc, char** argv) {
  Circumstances c;
  c.device = device.description();
  c.backend = device.backend();
  c.compute_capability = device.compute_capability();
  c.num_multiprocessors = device.num_multiprocessors();
  if (c.is_gpu())
    c.driver =
        first_line("nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null");
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  c.date = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(now));
  c.command = "bench_gpu";
  for (int i = 1; i < argc; ++i) c.command += std::string(" ") + argv[i];
  return c;
}

void run(const Circumstances& circumstances, bool quick, const std::string& json_path) {
  kv::Device& device = kv::device(circumstances.backend);
  const bool is_gpu = circumstances.is_gpu();
  const Effort effort = !is_gpu ? Effort::once() : quick ? Effort::quick() : Effort::full();
  const LimitSizes sizes = is_gpu ? LimitSizes::gpu() : LimitSizes::tiny();

  LimitPair limits;
  limits.before = measure_limits(device, sizes, effort);
  std::vector<Result> results;
  for (const Case& what : cases(is_gpu ? Scale::gpu() : Scale::tiny(), quick)) {
    std::fprintf(stderr, "%s, %s\n", std::string(kv::name(what.step)).c_str(), what.name.c_str());
    results.push_back(run_case(device, what, effort));
  }
  limits.after = measure_limits(device, sizes, effort);

  std::fputs(to_text(circumstances, limits, results).c_str(), stdout);
  if (!json_path.empty())
    kv::write_file_atomically("--json", json_path, to_json(circumstances, limits, results).str());
  for (const Result& result : results)
    if (!result.is_right())
      throw std::runtime_error("a kernel computes something else, its time is worth nothing");
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Rates of the attention kernels on a GPU beside the GPU's limits", "bench_gpu");
  std::string device = "gpu", json;
  bool quick = false;
  app.add_option("--device", device, "gpu; emulated tries the program out without one")
      ->check(CLI::IsMember({"gpu", "emulated"}));
  app.add_option("--json", json, "write all figures to this file");
  app.add_flag("--quick", quick, "only the cases with a goal, and fewer repetitions");
  return kv::parse_and_run(app, argc, argv, [&] {
    const kv::Backend backend = kv::choose_backend(device);
    if (!json.empty()) kv::check_writable("--json", json);
    run(circumstances_of(kv::device(backend), argc, argv), quick, json);
  });
}
