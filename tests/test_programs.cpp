// The programs as a person meets them: what they print, write and refuse.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <filesystem>
#include <string>

#include "support/programs.hpp"

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
using namespace kv_test;

TEST_CASE("programs: chapters 1 and 2 write the same text and the same report lines",
          "[programs]") {
  const std::string arguments = "--prompt 'ROMEO:' --tokens 40";
  const Outcome first = run("01_recompute", arguments);
  const Outcome second = run("02_kv_cache", arguments);
  REQUIRE(first.status == 0);
  REQUIRE(second.status == 0);
  CHECK(first.err.empty());
  CHECK(second.err.empty());
  CHECK_THAT(first.out, StartsWith("ROMEO:"));
  CHECK(text_of(first.out) == text_of(second.out));
  CHECK_THAT(first.out, ContainsSubstring("Every count equals its closed form"));

  const auto labels = [](const std::string& report) {
    std::string names;
    for (std::size_t at = report.find('\n') + 1; at < report.size(); at = report.find('\n', at) + 1)
      names += report.substr(at, 24) + "|";
    return names;
  };
  CHECK(labels(deterministic_report(first.out)) == labels(deterministic_report(second.out)));
  CHECK_THAT(deterministic_report(second.out), ContainsSubstring("40 of 40 tokens equal"));
}

TEST_CASE("programs: the report goes into JSON and CSV, with text and ids", "[programs]") {
  const fs::path json_path = scratch() / "report.json", csv_path = scratch() / "report.csv";
  const fs::path svg_path = scratch() / "plot.svg";
  for (const std::string program : {"01_recompute", "02_kv_cache"}) {
    const Outcome outcome =
        run(program, "--prompt 'ROMEO:' --tokens 12 --json " + json_path.string() + " --csv " +
                         csv_path.string() + " --svg " + svg_path.string());
    REQUIRE(outcome.status == 0);
    const std::string json = slurp(json_path);
    CHECK_THAT(json_value(json, "text"), StartsWith("\"ROMEO:"));
    CHECK(json_value(json, "finish_reason") == "\"length\",");
    CHECK(json_value(json, "math") == "\"plain\",");
    // "ROMEO:" is two tokens: 12 * 2 + 12 * 11 / 2 rows recomputed, 2 + 12 - 1 with a cache.
    const std::string prompt_ids = json_value(json, "prompt_tokens");
    REQUIRE(std::count(prompt_ids.begin(), prompt_ids.end(), ',') == 1);
    CHECK(json_value(json, "rows") == (program == "01_recompute" ? "90," : "13,"));
    const std::string ids = json_value(json, "output_tokens");
    CHECK(std::count(ids.begin(), ids.end(), ',') == 11);
    const std::string csv = slurp(csv_path);
    CHECK(std::count(csv.begin(), csv.end(), '\n') == 2);
    CHECK_THAT(csv, ContainsSubstring(program + ","));
    CHECK_THAT(csv, ContainsSubstring(",device,math,"));
    CHECK_THAT(csv, ContainsSubstring(",cpu,plain,"));
    CHECK_THAT(slurp(svg_path), StartsWith("<svg"));
  }
  fs::remove(json_path);
  fs::remove(csv_path);
  fs::remove(svg_path);
}

TEST_CASE("programs: a run is the same every time, and with any chunk", "[programs]") {
  const std::string prompt =
      "--prompt 'Now is the winter of our discontent' --tokens 30 --compare 0";
  const std::string first = text_of(run("02_kv_cache", prompt).out);
  CHECK(first.size() > 60);
  for (const std::string more : {"", " --chunk 1", " --chunk 4", " --chunk 5", " --threads 1"})
    CHECK(text_of(run("02_kv_cache", prompt + more).out) == first);
  const std::string sampled = prompt + " --temperature 0.8 --top-k 40 --top-p 0.9 --seed ";
  CHECK(text_of(run("02_kv_cache", sampled + "7").out) ==
        text_of(run("02_kv_cache", sampled + "7").out));
  CHECK(text_of(run("02_kv_cache", sampled + "7").out) !=
        text_of(run("02_kv_cache", sampled + "8").out));
}

TEST_CASE("programs: a full context is a clean stop with a reason", "[programs]") {
  const Outcome outcome = run("02_kv_cache", "--prompt 'ROMEO:' --context 20 --tokens 10000");
  CHECK(outcome.status == 0);
  CHECK_THAT(outcome.out, ContainsSubstring("the context of 20 tokens is full"));
  CHECK_THAT(outcome.out, ContainsSubstring("2 prompt + 18 output"));
}

TEST_CASE("programs: chapters without kernels take any device, run on the cpu and say so",
          "[programs]") {
  const std::string program =
      GENERATE(std::string("00_model"), std::string("01_recompute"), std::string("02_kv_cache"));
  for (const std::string device : {"auto", "cpu", "emulated", "checked", "gpu"}) {
    const Outcome outcome = run(program, "--tokens 2 --device " + device);
    CHECK(outcome.status == 0);
    CHECK_THAT(outcome.out, ContainsSubstring("device"));
    CHECK_THAT(outcome.out, ContainsSubstring("cpu"));
    if (device == "auto" || device == "cpu")
      CHECK(outcome.err.empty());
    else
      CHECK(outcome.err == program + ": note: --device " + device +
                               ": this chapter has no kernels and runs on the cpu\n");
  }
}

TEST_CASE("programs: chapters without kernels run the plain path unless told otherwise",
          "[programs]") {
  const std::string program =
      GENERATE(std::string("00_model"), std::string("01_recompute"), std::string("02_kv_cache"));
  expect_math(program, "plain");
  if (program == "00_model") return;  // it writes no text of its own
  const std::string arguments = "--prompt 'ROMEO:' --tokens 40 --compare 0 --math ";
  CHECK(text_of(run(program, arguments + "plain").out) ==
        text_of(run(program, arguments + "fast").out));
}

TEST_CASE("programs: chapter 0 has no report to write and says so", "[programs]") {
  expect_refusal("00_model", "--json " + (scratch() / "x.json").string(), "--json");
}

TEST_CASE("programs: chapter 0 prints shape, weights and a pass", "[programs]") {
  const Outcome outcome = run("00_model", "--prompt 'To be, or not to'");
  CHECK(outcome.status == 0);
  for (const std::string words : {"num_kv_heads", "token embedding", "logits [1024]"})
    CHECK_THAT(outcome.out, ContainsSubstring(words));
}

TEST_CASE("programs: bad input ends with one line that names it, and status 2", "[programs]") {
  const std::string program =
      GENERATE(std::string("00_model"), std::string("01_recompute"), std::string("02_kv_cache"));
  expect_refusal(program, "--no-such-option", "--no-such-option");
  expect_refusal(program, "stray", "stray");
  expect_refusal(program, "--prompt ''", "--prompt");
  expect_refusal(program, "--model /no/such/file.gguf", "/no/such/file.gguf");
  expect_refusal(program, "--model /", "/");
  expect_refusal(program, "--model /dev/null", "/dev/null");
  expect_refusal(program, "--model " KV_SOURCE_DIR "/README.md", "README.md");
  expect_refusal(program, "--tokens 0", "--tokens");
  expect_refusal(program, "--tokens -3", "--tokens");
  expect_refusal(program, "--tokens many", "--tokens");
  expect_refusal(program, "--tokens 99999999999999999999", "--tokens");
  expect_refusal(program, "--tokens", "--tokens");
  expect_refusal(program, "--context 0", "--context");
  expect_refusal(program, "--threads 0", "--threads");
  for (const std::string name : {"int3", "2", "30", "0", "BF16", "''"})
    expect_refusal(program, "--kv-dtype " + name, "--kv-dtype");
  for (const std::string name : {"eigen", "PLAIN", "0"})
    expect_refusal(program, "--math " + name,
                   "--math: '" + name + "' is unknown; give plain or fast");
  expect_refusal(program, "--seed -1", "--seed");
  for (const std::string name : {"tpu", "GPU", "''", "0"})
    expect_refusal(program, "--device " + name, "--device");
  expect_refusal(program, "--tokens 1 >/dev/full", "standard output");
  expect_refusal(program, "--json /no/such/folder/x.json --tokens 1", "--json");
  expect_refusal(program, "--csv / --tokens 1", "--csv");
  expect_refusal(program, "--svg '' --svg /no/x.svg --tokens 1", "--svg");
}

TEST_CASE("programs: options that do not fit the model are refused by name", "[programs]") {
  const std::string program = GENERATE(std::string("01_recompute"), std::string("02_kv_cache"));
  expect_refusal(program, "--context 513", "--context");
  expect_refusal(program, "--context 2 --prompt 'a longer prompt than that'", "--prompt");
  expect_refusal(program, "--temperature -1", "temperature");
  expect_refusal(program, "--temperature nan", "temperature");
  expect_refusal(program, "--top-p 0", "top-p");
  expect_refusal(program, "--top-p 1.5", "top-p");
  expect_refusal(program, "--top-k -1", "top-k");
}

TEST_CASE("programs: a prompt longer than the context is refused with both numbers", "[programs]") {
  std::string prompt;
  for (int i = 0; i < 600; ++i) prompt += "wherefore ";
  expect_refusal("02_kv_cache", "--prompt '" + prompt + "'", "512");
}

TEST_CASE("programs: a refused run leaves no file behind", "[programs]") {
  const fs::path json_path = scratch() / "never.json";
  expect_refusal("02_kv_cache", "--json " + json_path.string() + " --context 513", "--context");
  CHECK(!fs::exists(json_path));
  for (const auto& entry : fs::directory_iterator(scratch()))
    CHECK_THAT(entry.path().filename().string(), !StartsWith("never"));
}
