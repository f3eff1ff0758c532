#include "kv/report/options.hpp"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <new>
#include <system_error>

#include "kv/check.hpp"
#include "kv/fast/thread_team.hpp"
#include "kv/report/course_table.hpp"
#include "kv/report/output_file.hpp"

namespace kv {

namespace {

constexpr int kBadInput = 2;
constexpr int kOwnFailure = 1;

// CLI11 alone takes "-1" for 2^64 - 1. \return what is wrong, or nothing
std::string whole_number(const std::string& text) {
  const bool digits = !text.empty() && text.size() < 20 &&
                      text.find_first_not_of("0123456789") == std::string::npos;
  return digits ? "" : "'" + text + "' is no whole number of 0 or more";
}

void declare(CLI::App& app, ChapterOptions& o, bool has_kernels) {
  const auto positive = CLI::Range(std::int64_t{1}, std::int64_t{1} << 31);
  app.add_option("--model", o.model, "GGUF file of a Llama-family model")->capture_default_str();
  app.add_option("--prompt", o.prompt, "text to continue");
  app.add_option("--tokens", o.max_tokens, "output tokens to stop after")
      ->check(positive)
      ->capture_default_str();
  app.add_option("--context", o.context, "most tokens of prompt and output (default: the model's)")
      ->check(positive);
  app.add_option("--chunk", o.chunk, "rows of one prefill pass")
      ->check(positive)
      ->capture_default_str();
  app.add_option("--compare", o.num_compared,
                 "steps to compare with the previous chapter, spread evenly; 0: none")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 31))
      ->capture_default_str();
  // A string and not the enum itself: CLI11 would take its numbers as well.
  const auto set_format = [&o](const std::string& name) { o.kv_dtype = parse_kv_dtype(name); };
  app.add_option_function<std::string>("--kv-dtype", set_format,
                                       "format of cached K and V: fp32, fp16 or bf16")
      ->default_str("fp32");
  app.add_option("--device", o.device, "what runs attention: auto, gpu, emulated, checked or cpu")
      ->check(CLI::IsMember({"auto", "gpu", "emulated", "checked", "cpu"}))
      ->capture_default_str();
  app.add_option_function<std::string>(
         "--math", [&o](const std::string& name) { o.math = &math_named(name); },
         has_kernels ? "code of the linear layers, and of attention on the cpu: plain or fast"
                     : "code of the linear layers and of attention: plain or fast")
      ->default_str(std::string(o.math->name));
  app.add_option("--seed", o.sampling.seed, "seed of the sampler")
      ->check(whole_number)
      ->capture_default_str();
  app.add_option("--temperature", o.sampling.temperature, "0: greedy")->capture_default_str();
  app.add_option("--top-k", o.sampling.top_k, "keep the k likeliest tokens; 0: all")
      ->capture_default_str();
  app.add_option("--top-p", o.sampling.top_p, "keep the likeliest tokens of this total probability")
      ->capture_default_str();
  app.add_option("--threads", o.threads, "threads (default: the processors)")
      ->check(CLI::Range(1, 1024));
  app.add_flag("--special", o.special, "take control tokens in the prompt as such");
  app.add_flag("--ignore-eos", o.ignore_eos, "go on after an end-of-text token");
  app.add_option("--json", o.json, "write the report as JSON to this file");
  app.add_option("--csv", o.csv, "write the report as CSV to this file");
  app.add_option("--table", o.table, "put this chapter's line into the course's table, a CSV file");
  app.add_option("--svg", o.svg, "write the chapter's plot as SVG to this file");
}

// CLI11's messages span lines; an error of ours is one.
std::string one_line(std::string text) {
  for (char& c : text)
    if (c == '\n') c = ' ';
  return text;
}

}  // namespace

KvDType parse_kv_dtype(const std::string& name) {
  if (name == "fp32") return DType::f32;
  if (name == "fp16") return DType::f16;
  if (name == "bf16") return DType::bf16;
  throw InputError("--kv-dtype: '" + name + "' is unknown; give fp32, fp16 or bf16");
}

int report_errors(const std::string& program, const std::function<void()>& body) {
  try {
    body();
    if (!std::cout.flush()) throw InputError("standard output: cannot be written");
    return 0;
  } catch (const InputError& error) {
    std::cerr << program << ": " << one_line(error.what()) << "\n";
    return kBadInput;
  } catch (const std::bad_alloc&) {
    std::cerr << program << ": out of memory; try a smaller --context or model\n";
    return kBadInput;
  } catch (const std::system_error& error) {
    std::cerr << program << ": the system refused: " << one_line(error.what())
              << "; try fewer --threads\n";
    return kBadInput;
  } catch (const std::exception& error) {
    std::cerr << program << ": internal error: " << one_line(error.what()) << "\n";
    return kOwnFailure;
  }
}

int parse_and_run(CLI::App& app, int argc, char** argv, const std::function<void()>& body) {
  return report_errors(app.get_name(), [&] {
    try {
      app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      if (error.get_exit_code() != 0) throw InputError(std::string(error.what()) + "; see --help");
      app.exit(error);  // --help
      return;
    }
    body();
  });
}

int run_chapter(int argc, char** argv, const std::string& about, const std::string& default_model,
                const std::function<void(const ChapterOptions&)>& body,
                const ChapterExtras& extras) {
  ChapterOptions options;
  options.model = default_model;
  CLI::App app(about, std::filesystem::path(argv[0]).filename().string());
  if (extras.has_kernels) options.math = &fast_math();
  declare(app, options, extras.has_kernels);
  if (extras.declare) extras.declare(app);
  return parse_and_run(app, argc, argv, [&] {
    if (options.prompt.empty())
      throw InputError("--prompt: it is empty; give at least one character");
    // A path that cannot be written is found now, not after minutes of work.
    if (!options.json.empty()) check_writable("--json", options.json);
    if (!options.csv.empty()) check_writable("--csv", options.csv);
    if (!options.table.empty()) check_course_table("--table", options.table);
    if (!options.svg.empty()) check_writable("--svg", options.svg);
    if (options.threads > 0) set_num_threads(options.threads);
    if (!extras.has_kernels && options.device != "auto" && options.device != "cpu")
      std::cerr << app.get_name() << ": note: --device " << options.device
                << ": this chapter has no kernels and runs on the cpu\n";
    body(options);
  });
}

}  // namespace kv
