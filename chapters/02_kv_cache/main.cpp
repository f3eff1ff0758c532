// Chapter 2 - the KV cache.
//
// Before: chapter 1 runs the whole prefix through the model for every new token.
// Change: keep every layer's K and V rows and feed only the newest token.
// After:  the same tokens; work per step falls from n rows to one.
// Run:    build/default/bin/02_kv_cache --tokens 40

#include <iostream>

#include "kv/agreement.hpp"
#include "kv/cache/contiguous.hpp"
#include "kv/cost/kv_bytes.hpp"
#include "kv/fast/thread_team.hpp"
#include "kv/generate.hpp"
#include "kv/load.hpp"
#include "kv/report/options.hpp"
#include "kv/report/report.hpp"
#include "kv/report/side_by_side.hpp"

namespace {

//! [generate]
// The cache lives as long as the sequence: the prompt fills it, each step adds one row.
kv::Generation generate(const kv::Model& model, kv::GenerationRun run, kv::ContiguousCache& cache,
                        const kv::ChapterOptions& options) {
  if (!run.done())
    run.push(kv::prefill(model, cache, run.tokens(), options.chunk, run.work(), *options.math));
  while (!run.done())
    run.push(kv::decode_step(model, cache, run.tokens(), run.work(), *options.math));
  return run.finish();
}
//! [generate]

void chapter(const kv::ChapterOptions& options) {
  // Config and model.
  const kv::LoadedModel loaded = kv::load(options, std::cerr);
  const kv::Model& model = loaded.model;

  // Prompt.
  kv::GenerationRun run = kv::start_run(loaded, options, std::cout);

  // Generate.
  kv::ContiguousCache cache(model.config, run.max_seq_len(), options.kv_dtype);
  kv::ChapterReport report;
  report.chapter = "02_kv_cache";
  report.change = "K and V are kept";
  report.model = model.config.name;
  report.math = options.math->name;
  report.threads = kv::num_threads();
  report.run = generate(model, std::move(run), cache, options);
  report.kv_bytes_per_token =
      kv::kv_bytes_per_token(kv::kv_shape(model.config), kv::kv_format(options.kv_dtype)).total();
  report.kv_bytes_held = cache.bytes_held();

  // The same steps as chapter 1 takes them.
  if (options.num_compared > 0) {
    const auto recompute = [&](std::span<const kv::TokenId> prefix, kv::Work* work) {
      return kv::recompute(model, prefix, options.kv_dtype, work, *options.math);
    };
    report.agreement = kv::compare(report.run, model.config, options.kv_dtype, recompute);
    kv::show_side_by_side(*report.agreement, "ch 2", "ch 1", options, std::cout);
  }

  // Report: the lines that every chapter ends with.
  kv::publish(report, options);
}

}  // namespace

int main(int argc, char** argv) {
  return kv::run_chapter(argc, argv, "Chapter 2: keep K and V, feed only the newest token",
                         KV_DEFAULT_MODEL, chapter);
}
