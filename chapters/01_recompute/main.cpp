// Chapter 1 - recompute.
//
// Before: chapter 0 shows one forward pass: tokens in, the logits of the next token out.
// Change: append the likeliest token to the text and run the whole text again.
// After:  text, at a price: each step runs a row more than the last, N tokens about N^2 / 2 rows.
// Run:    build/default/bin/01_recompute --tokens 40

#include <iostream>

#include "kv/cache/contiguous.hpp"
#include "kv/cost/kv_bytes.hpp"
#include "kv/fast/thread_team.hpp"
#include "kv/generate.hpp"
#include "kv/load.hpp"
#include "kv/report/growth.hpp"
#include "kv/report/options.hpp"
#include "kv/report/report.hpp"

namespace {

//! [generate]
// Every step starts from nothing: a fresh state, and the whole prefix through the model.
kv::Generation generate(const kv::Model& model, kv::GenerationRun run,
                        const kv::ChapterOptions& options) {
  while (!run.done())
    run.push(kv::recompute(model, run.tokens(), options.kv_dtype, run.work(), *options.math));
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
  kv::ChapterReport report;
  report.chapter = "01_recompute";
  report.change = "all rows for every token";
  report.model = model.config.name;
  report.math = options.math->name;
  report.threads = kv::num_threads();
  report.run = generate(model, std::move(run), options);
  report.kv_bytes_per_token =
      kv::kv_bytes_per_token(kv::kv_shape(model.config), kv::kv_format(options.kv_dtype)).total();
  report.kv_bytes_held = 0;  // the state of a step is thrown away with it

  // Report: how the work grows, then the lines that every chapter ends with.
  kv::show_growth(report.run, model.config, options, std::cout);
  kv::publish(report, options);
}

}  // namespace

int main(int argc, char** argv) {
  return kv::run_chapter(argc, argv,
                         "Chapter 1: the whole prefix through the model for every token",
                         KV_DEFAULT_MODEL, chapter);
}
