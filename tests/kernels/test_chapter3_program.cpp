// Chapter 3 as a person meets it: devices, steps, the ladder, what it refuses.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <iostream>
#include <string>
#include <vector>

#include "chapter_device.hpp"
#include "kv/cache/contiguous.hpp"
#include "kv/load.hpp"
#include "kv/report/report.hpp"
#include "support/programs.hpp"
#include "support/real_models.hpp"

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
using namespace kv_test;

namespace {

const std::string kProgram = "03_flash_attention";

// A line of the report, without its label.
std::string report_line(const std::string& out, const std::string& label) {
  const std::size_t at = out.find("\n" + label, out.find("--- report"));
  REQUIRE(at != std::string::npos);
  return out.substr(at + 25, out.find('\n', at + 1) - at - 25);
}

// Lines of the ladder's table, which begin with the number of their step.
std::vector<std::string> ladder_lines(const std::string& out) {
  std::vector<std::string> lines;
  std::size_t at = out.find("\n\nThe ladder");
  REQUIRE(at != std::string::npos);
  const std::size_t end = out.find("--- report", at);
  while ((at = out.find("\n     ", at)) < end) {
    const std::size_t next = out.find('\n', at + 1);
    lines.push_back(out.substr(at + 6, next - at - 6));
    at = next;
  }
  return lines;
}

}  // namespace

TEST_CASE("chapter 3's program: it writes the text of chapter 2 and the same report lines",
          "[kernels][programs]") {
  const std::string arguments = "--prompt 'ROMEO:' --tokens 12 --device emulated";
  const Outcome before = run("02_kv_cache", "--prompt 'ROMEO:' --tokens 12");
  const Outcome outcome = run(kProgram, arguments);
  REQUIRE(outcome.status == 0);
  CHECK(outcome.err.empty());
  CHECK(text_of(outcome.out) == text_of(before.out));
  for (const std::string label :
       {"model", "tokens", "rows through the model", "KV bytes per token", "KV bytes held"})
    CHECK(report_line(outcome.out, label) == report_line(before.out, label));
  CHECK(report_line(before.out, "device") == "cpu");
  CHECK_THAT(report_line(outcome.out, "device"), StartsWith("emulator, "));
  CHECK_THAT(report_line(outcome.out, "agreement"), ContainsSubstring("12 of 12 tokens equal"));
  CHECK(ladder_lines(outcome.out).size() == 7);
  CHECK_THAT(outcome.out, ContainsSubstring("Every count of bytes moved equals its closed form"));
  // The deterministic part of a run is the same every time.
  CHECK(deterministic_report(run(kProgram, arguments).out) == deterministic_report(outcome.out));
}

TEST_CASE("chapter 3's program: a step is used for every pass and is the only row of the ladder",
          "[kernels][programs]") {
  const int step = GENERATE(1, 2, 3, 4, 5, 6);
  const std::string names[] = {"two_pass", "online", "tiled", "tensor_core", "split_kv", "grouped"};
  const Outcome outcome =
      run(kProgram, "--prompt 'ROMEO:' --tokens 3 --device emulated --chunk 1 --step " +
                        std::to_string(step) + (step == 4 ? " --kv-dtype bf16" : ""));
  INFO(outcome.err);
  REQUIRE(outcome.status == 0);
  const std::string device = report_line(outcome.out, "device");
  CHECK(device.substr(device.find(": ") + 2) == names[step - 1]);
  REQUIRE(ladder_lines(outcome.out).size() == 1);
  CHECK_THAT(ladder_lines(outcome.out)[0],
             StartsWith(std::to_string(step) + "  " + names[step - 1]));
  CHECK_THAT(report_line(outcome.out, "agreement"), ContainsSubstring("3 of 3 tokens equal"));
}

TEST_CASE("chapter 3's program: every device writes the same text", "[kernels][programs]") {
  const std::string device = GENERATE(std::string("auto"), std::string("emulated"),
                                      std::string("checked"), std::string("cpu"));
  const Outcome outcome = run(kProgram, "--prompt 'ROMEO:' --tokens 4 --step 2 --device " + device);
  REQUIRE(outcome.status == 0);
  CHECK(text_of(outcome.out) == text_of(run("02_kv_cache", "--prompt 'ROMEO:' --tokens 4").out));
  const std::string line = report_line(outcome.out, "device");
  if (device == "cpu") CHECK(line == "cpu");
  if (device == "emulated") CHECK_THAT(line, StartsWith("emulator, "));
  if (device == "checked") CHECK_THAT(line, StartsWith("checking emulator, "));
  if (device == "auto" && !kv::has_gpu()) CHECK_THAT(line, StartsWith("emulator, "));
}

TEST_CASE("chapter 3's program: 16-bit caches take tensor cores for the prompt",
          "[kernels][programs]") {
  const std::string dtype = GENERATE(std::string("fp16"), std::string("bf16"));
  const Outcome outcome =
      run(kProgram, "--prompt 'ROMEO: what' --tokens 6 --device emulated --kv-dtype " + dtype);
  INFO(outcome.err);
  REQUIRE(outcome.status == 0);
  CHECK_THAT(report_line(outcome.out, "device"),
             ContainsSubstring("tensor_core, split_kv for one new token"));
  CHECK(report_line(outcome.out, "KV bytes per token") == "1,024");
}

TEST_CASE("chapter 3's device: only tensor cores round products, and so widen the bound",
          "[kernels][programs]") {
  kv::ModelConfig config;
  config.num_layers = 1;
  config.heads = {4, 2, 32};
  const auto product_dtype = [&](const std::string& device, kv::DType dtype, int step) {
    kv::ChapterOptions options;
    options.device = device;
    options.kv_dtype = dtype;
    kv::KernelOptions kernels;
    kernels.step = step;
    const kv::ChapterDevice chosen(options, kernels, config);
    CHECK(chosen.make_cache(3)->capacity() == 3);
    return chosen.product_dtype();
  };
  CHECK(product_dtype("emulated", kv::DType::bf16, 0) == kv::DType::bf16);
  CHECK(product_dtype("emulated", kv::DType::f16, 4) == kv::DType::f16);
  CHECK(product_dtype("emulated", kv::DType::f16, 3) == kv::DType::f32);
  CHECK(product_dtype("emulated", kv::DType::f32, 0) == kv::DType::f32);
  CHECK(product_dtype("cpu", kv::DType::bf16, 0) == kv::DType::f32);
}

TEST_CASE("chapter 3's program: JSON, CSV and the picture are written", "[kernels][programs]") {
  const fs::path json_path = scratch() / "three.json", csv_path = scratch() / "three.csv";
  const fs::path svg_path = scratch() / "three.svg";
  const Outcome outcome =
      run(kProgram, "--prompt 'ROMEO:' --tokens 3 --device emulated --json " + json_path.string() +
                        " --csv " + csv_path.string() + " --svg " + svg_path.string());
  REQUIRE(outcome.status == 0);
  const std::string json = slurp(json_path), csv = slurp(csv_path), svg = slurp(svg_path);
  CHECK(json_value(json, "chapter") == "\"03_flash_attention\",");
  CHECK_THAT(json_value(json, "device"), StartsWith("\"emulator, "));
  CHECK(json_value(json, "rows") == "4,");  // 2 of the prompt and 2 more
  CHECK_THAT(json_value(json, "text"), StartsWith("\"ROMEO:"));
  CHECK_THAT(csv, StartsWith("chapter,model,device,"));
  CHECK_THAT(csv, ContainsSubstring("\"emulator, "));  // quoted, because of its comma
  CHECK_THAT(svg, StartsWith("<svg"));
  CHECK_THAT(svg, ContainsSubstring("Bytes through global memory"));
  CHECK_THAT(svg, ContainsSubstring("roofline of an H100"));
  for (const auto& path : {json_path, csv_path, svg_path}) fs::remove(path);
}

TEST_CASE("chapter 3's program: bad input ends with one line that names it, and status 2",
          "[kernels][programs]") {
  for (const std::string step : {"0", "7", "-1", "two", "''"})
    expect_refusal(kProgram, "--tokens 1 --step " + step, "--step");
  expect_refusal(kProgram, "--tokens 1 --device tpu", "--device");
  if (!kv::has_gpu()) expect_refusal(kProgram, "--tokens 1 --device gpu", "--device gpu");
  expect_refusal(kProgram, "--tokens 1 --device emulated --step 4", "--kv-dtype");
  expect_refusal(kProgram, "--tokens 1 --model /no/such/file.gguf", "/no/such/file.gguf");
  expect_refusal(kProgram, "--tokens 1 --svg /no/x.svg", "--svg");
  expect_refusal(kProgram, "--context 513", "--context");
  for (const std::string program : {"00_model", "01_recompute", "02_kv_cache"})
    expect_refusal(program, "--step 3", "--step");
}

TEST_CASE("chapter 3's program: a model whose heads have no kernel is refused before any text",
          "[kernels][programs][model]") {
  if (!fs::exists(stories_path())) SKIP(stories_path() << " is not here");
  const std::string arguments = "--tokens 3 --prompt Once --model " + stories_path();
  expect_refusal(kProgram, arguments + " --device emulated", "head_dim 8");
  CHECK(run(kProgram, arguments + " --device emulated").out.empty());
  // The CPU has no such limit; there is no ladder to show.
  const Outcome on_cpu = run(kProgram, arguments + " --device cpu");
  CHECK(on_cpu.status == 0);
  CHECK_THAT(on_cpu.out, ContainsSubstring("No ladder"));
}

TEST_CASE("chapters with kernels run the fast path unless told otherwise", "[kernels][programs]") {
  const std::string program =
      GENERATE(std::string("03_flash_attention"), std::string("04_shared_heads"),
               std::string("05_paged_cache"));
  expect_math(program, "fast");
  expect_refusal(program, "--math eigen", "--math: 'eigen' is unknown; give plain or fast");
  // With kernels for attention it is the linear layers'.
  const Outcome outcome = run(program, "--device emulated --tokens 2 --math plain");
  INFO(outcome.err);
  CHECK(outcome.status == 0);
  CHECK(report_line(outcome.out, "math") == "plain");
  CHECK_THAT(report_line(outcome.out, "device"), StartsWith("emulator, "));
}

TEST_CASE("chapter 3's program: attention that differs ends the run with status 1",
          "[kernels][programs]") {
  const auto status_with = [](float factor) {
    std::string words[] = {"planted", "--prompt", "ROMEO:",  "--tokens",
                           "3",       "--device", "emulated"};
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    kv::KernelOptions kernels;
    const auto body = [&](const kv::ChapterOptions& options) {
      const kv::LoadedModel loaded = kv::load(options.model, std::cerr);
      const kv::ModelConfig& config = loaded.model.config;
      const kv::ChapterDevice device(options, kernels, config);
      const auto cache = device.make_cache(8);
      kv::Math planted = device.math();
      planted.attention = [&](std::span<const kv::AttentionItem> items, const kv::HeadConfig& heads,
                              int layer, float scale) {
        device.math().attention(items, heads, layer, factor * scale);
      };
      kv::GenerationRun run = kv::start_run(loaded, options, std::cout);
      run.push(kv::prefill(loaded.model, *cache, run.tokens(), 512, run.work(), planted));
      while (!run.done())
        run.push(kv::forward(loaded.model, *cache, run.last_token(), run.work(), planted));
      kv::ChapterReport report;
      report.run = run.finish();
      report.agreement = kv::compare(
          report.run, config, options.kv_dtype,
          [&](std::span<const kv::TokenId> prefix, kv::Work* work) -> std::vector<float> {
            return kv::recompute(loaded.model, prefix, options.kv_dtype, work);
          });
      kv::publish(report, options);
    };
    return kv::run_chapter(static_cast<int>(argv.size()), argv.data(), "", shakespeare_path(), body,
                           kernels.extras());
  };
  CHECK(status_with(1.0f) == 0);
  CHECK(status_with(1.01f) == 1);
}
