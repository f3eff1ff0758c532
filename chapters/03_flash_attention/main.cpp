// Chapter 3 - FlashAttention.
//
// Before: chapter 2's attention runs on the CPU, over the rows of a cache in its memory.
// Change: the cache lies on a device, and CUDA kernels read it: tile by tile, scores never stored.
// After:  the same tokens; a ladder of kernels, and what each of them moves through memory.
// Run:    build/default/bin/03_flash_attention --tokens 40

#include <iostream>

#include "attention/ladder_report.hpp"
#include "chapter_device.hpp"
#include "kv/agreement.hpp"
#include "kv/cache/contiguous.hpp"
#include "kv/cost/kv_bytes.hpp"
#include "kv/fast/thread_team.hpp"
#include "kv/generate.hpp"
#include "kv/load.hpp"
#include "kv/report/options.hpp"
#include "kv/report/report.hpp"

namespace {

//! [generate]
// The loop of chapter 2. Where the cache lies and who reads it has changed.
kv::Generation generate(const kv::Model& model, kv::GenerationRun run, kv::SequenceState& cache,
                        const kv::Math& math, const kv::ChapterOptions& options) {
  if (!run.done())
    run.push(kv::prefill(model, cache, run.tokens(), options.chunk, run.work(), math));
  while (!run.done()) run.push(kv::decode_step(model, cache, run.tokens(), run.work(), math));
  return run.finish();
}
//! [generate]

void chapter(const kv::ChapterOptions& options, const kv::KernelOptions& kernels) {
  // Config and model, and a device that has kernels for it.
  const kv::LoadedModel loaded = kv::load(options, std::cerr);
  const kv::Model& model = loaded.model;
  const kv::ChapterDevice device(options, kernels, model.config);

  // Prompt.
  kv::GenerationRun run = kv::start_run(loaded, options, std::cout);

  // Generate.
  const auto cache = device.make_cache(run.max_seq_len());
  kv::ChapterReport report;
  report.chapter = "03_flash_attention";
  report.change = "attention by CUDA kernels";
  report.model = model.config.name;
  report.device = device.description();
  report.math = options.math->name;
  report.threads = kv::num_threads();
  report.run = generate(model, std::move(run), *cache, device.math(), options);
  report.kv_bytes_per_token =
      kv::kv_bytes_per_token(kv::kv_shape(model.config), kv::kv_format(options.kv_dtype)).total();
  report.kv_bytes_held = cache->bytes_held();
  report.kv_bytes_read = device.kv_bytes_read();

  // The same steps as chapter 2 takes them.
  if (options.num_compared > 0) {
    kv::ContiguousCache before(model.config, cache->capacity(), options.kv_dtype);
    const auto cached = [&](std::span<const kv::TokenId> prefix, kv::Work* work) {
      const auto new_tokens = prefix.subspan(static_cast<std::size_t>(before.length()));
      return kv::prefill(model, before, new_tokens, options.chunk, work, *options.math);
    };
    report.agreement =
        kv::compare(report.run, model.config, options.kv_dtype, cached, device.product_dtype());
  }

  // The ladder: what each kernel moves through memory.
  kv::show_ladder(model.config.heads, options, kernels.step, std::cout);

  // Report: the lines that every chapter ends with.
  kv::publish(report, options);
}

}  // namespace

int main(int argc, char** argv) {
  kv::KernelOptions kernels;
  return kv::run_chapter(
      argc, argv, "Chapter 3: attention by CUDA kernels, on a GPU or in the emulator",
      KV_DEFAULT_MODEL, [&](const kv::ChapterOptions& options) { chapter(options, kernels); },
      kernels.extras());
}
