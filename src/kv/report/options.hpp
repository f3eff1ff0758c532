// The command line that all chapters share, and how a program ends.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "kv/cache/sequence_state.hpp"
#include "kv/math.hpp"
#include "kv/model/sampler.hpp"

namespace CLI {
class App;
}

namespace kv {

/// What the options of a chapter say.
struct ChapterOptions {
  std::string model;                        ///< path of a GGUF file
  std::string prompt = "First Citizen:\n";  ///< text to continue
  std::int64_t max_tokens = 64;             ///< output tokens
  std::int64_t context = 0;                 ///< tokens of prompt and output; 0: the model's own
  std::int64_t chunk = 512;                 ///< rows per prefill pass
  std::int64_t num_compared = 64;           ///< steps compared with the previous chapter
  KvDType kv_dtype = DType::f32;            ///< format of cached K and V
  std::string device = "auto";              ///< auto, gpu, emulated, checked or cpu
  const Math* math = &plain_math();         ///< linear layers, and attention where it is the CPU's
  SamplingOptions sampling;                 ///< how the next token is picked
  bool special = false;     ///< control tokens spelled in the prompt are taken as such
  bool ignore_eos = false;  ///< go on after an end-of-text token
  int threads = 0;          ///< 0: the processors this process may use
  std::string json;         ///< file for the report as JSON, or empty
  std::string csv;          ///< file for the report as CSV, or empty
  std::string table;        ///< file of the table that all chapters write a line of, or empty
  std::string svg;          ///< file for the chapter's plot, or empty
};

/// What a chapter adds to the command line that all share.
struct ChapterExtras {
  /// --device has a choice, and --math is fast unless told otherwise; else the CPU runs all, by
  /// the plain path unless told otherwise.
  bool has_kernels = false;
  std::function<void(CLI::App&)> declare;  ///< adds options of the chapter's own
};

/// Parses the command line, runs `body` and turns its errors into one line on stderr.
///
/// \param argc, argv    as main() got them
/// \param about         one sentence for --help
/// \param default_model path that --model defaults to
/// \param body          the program
/// \param extras        what only this chapter has
/// \return exit status: 0; 2 for bad input (what the user gave); 1 for a failure of our own
int run_chapter(int argc, char** argv, const std::string& about, const std::string& default_model,
                const std::function<void(const ChapterOptions&)>& body,
                const ChapterExtras& extras = {});

/// \param name fp32, fp16 or bf16
/// \throws InputError naming --kv-dtype for any other name
KvDType parse_kv_dtype(const std::string& name);

/// Parses the command line of any program and runs `body`; errors as in run_chapter.
///
/// \param app        its options, and the program's name
/// \param argc, argv as main() got them
/// \param body       the program
/// \return exit status as in run_chapter
int parse_and_run(CLI::App& app, int argc, char** argv, const std::function<void()>& body);

/// Runs `body` and turns what it throws into one line on stderr that starts with `program`.
/// \return exit status as in run_chapter
int report_errors(const std::string& program, const std::function<void()>& body);

}  // namespace kv
