// Chapter 4 - shared heads: MHA, GQA, MQA.
//
// Before: chapter 3 reads a shared row of K and V again for each query head that looks at it.
// Change: one read serves the whole group, and a model may have any number of KV heads.
// After:  the same tokens; a cache of 1, 1/4 or 1/32 of the size, and what that costs in loss.
// Run:    build/default/bin/04_shared_heads --tokens 40

#include <iostream>

#include "attention/group_report.hpp"
#include "chapter_device.hpp"
#include "kv/agreement.hpp"
#include "kv/cost/kv_bytes.hpp"
#include "kv/cost/shared_heads.hpp"
#include "kv/fast/thread_team.hpp"
#include "kv/generate.hpp"
#include "kv/load.hpp"
#include "kv/report/options.hpp"
#include "kv/report/report.hpp"

namespace {

//! [generate]
// The loop of chapter 3. The kernel that `math` runs for a new token has changed.
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
  report.chapter = "04_shared_heads";
  report.change = "a shared K/V row read once";
  report.model = model.config.name;
  report.device = device.description();
  report.math = options.math->name;
  report.threads = kv::num_threads();
  report.run = generate(model, std::move(run), *cache, device.math(), options);
  report.kv_bytes_per_token =
      kv::kv_bytes_per_token(kv::kv_shape(model.config), kv::kv_format(options.kv_dtype)).total();
  report.kv_bytes_held = cache->bytes_held();
  report.kv_bytes_read = device.kv_bytes_read();

  // The same steps as chapter 3 takes them.
  if (options.num_compared > 0) {
    const kv::ChapterDevice chapter3(options, {}, model.config);
    const auto before = chapter3.make_cache(cache->capacity());
    const auto unshared = [&](std::span<const kv::TokenId> prefix, kv::Work* work) {
      const auto new_tokens = prefix.subspan(static_cast<std::size_t>(before->length()));
      return kv::prefill(model, *before, new_tokens, options.chunk, work, chapter3.math());
    };
    report.agreement =
        kv::compare(report.run, model.config, options.kv_dtype, unshared, device.product_dtype());
  }

  // What sharing saves, who has to see to it, and what it costs.
  kv::show_group_reads(model.config.heads, options, std::cout);
  kv::show_shared_heads(model, report.run, options, KV_FAMILY, std::cout);

  // Report: the lines that every chapter ends with.
  kv::publish(report, options);
}

}  // namespace

int main(int argc, char** argv) {
  kv::KernelOptions kernels;
  kernels.decode = kv::AttentionStep::grouped;
  return kv::run_chapter(
      argc, argv, "Chapter 4: query heads that share K and V, and kernels that read them once",
      KV_DEFAULT_MODEL, [&](const kv::ChapterOptions& options) { chapter(options, kernels); },
      kernels.extras());
}
