// Writes a model with another number of KV heads: fewer by mean pooling, more by repeating.
//
// Everything else of the file is carried over byte for byte (src/kv/model/pool_heads.hpp).
// Run: build/default/bin/convert_heads --model in.gguf --kv-heads 2 --out out.gguf
#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <string>

#include "kv/model/gguf.hpp"
#include "kv/model/pool_heads.hpp"
#include "kv/report/options.hpp"
#include "kv/report/output_file.hpp"
#include "kv/report/table.hpp"

namespace {

struct Options {
  std::string model, out;
  int num_kv_heads = 0;
};

void run(const Options& options) {
  kv::check_writable("--out", options.out);
  const auto file = kv::GgufFile::open(options.model);
  const kv::HeadConfig before = kv::load_model(file).config.heads;
  try {
    kv::check_kv_heads(before, options.num_kv_heads);
  } catch (const kv::InputError& error) {
    throw kv::InputError("--kv-heads: " + std::string(error.what()));
  }
  const std::string bytes = kv::with_kv_heads(file, options.num_kv_heads);
  kv::write_file_atomically("--out", options.out, bytes);
  const char* how = options.num_kv_heads < before.num_kv_heads   ? "mean-pooled from "
                    : options.num_kv_heads > before.num_kv_heads ? "repeated from "
                                                                 : "as before: ";
  std::cout << options.out << ": " << before.num_q_heads << " query heads, " << options.num_kv_heads
            << " KV heads (" << how << before.num_kv_heads << "), "
            << kv::format_bytes(static_cast<std::int64_t>(bytes.size())) << "\n";
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Writes a model with another number of KV heads: mean-pooled, or repeated",
               std::filesystem::path(argv[0]).filename().string());
  app.add_option("--model", options.model, "GGUF file of architecture llama")->required();
  app.add_option(
         "--kv-heads", options.num_kv_heads,
         "wanted: a divisor of the model's KV heads (mean pooling; quantised weights become "
         "F16), or a multiple of them that divides its query heads (repeating)")
      ->required();
  app.add_option("--out", options.out, "file to write; may be the same as --model")->required();
  return kv::parse_and_run(app, argc, argv, [&] { run(options); });
}
