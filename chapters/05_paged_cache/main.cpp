// Chapter 5 - the paged cache.
//
// Before: a cache is one piece of memory, reserved for the longest sequence that may come.
// Change: it is a table of blocks; blocks are taken as they are needed, and can be shared.
// After:  the same tokens; nothing reserved, common beginnings kept once, a fork copies nothing.
// Run:    build/default/bin/05_paged_cache --tokens 40

#include <iostream>

#include "chapter_device.hpp"
#include "kv/agreement.hpp"
#include "kv/cache/export.hpp"
#include "kv/cache/paged.hpp"
#include "kv/cost/kv_bytes.hpp"
#include "kv/fast/thread_team.hpp"
#include "kv/generate.hpp"
#include "kv/load.hpp"
#include "kv/report/options.hpp"
#include "kv/report/paging_story.hpp"
#include "kv/report/report.hpp"

namespace {

//! [generate]
// The loop of chapter 4. The cache grows by a block when its last one is full.
kv::Generation generate(const kv::Model& model, kv::GenerationRun run, kv::SequenceState& cache,
                        const kv::Math& math, const kv::ChapterOptions& options) {
  if (!run.done())
    run.push(kv::prefill(model, cache, run.tokens(), options.chunk, run.work(), math));
  while (!run.done()) run.push(kv::decode_step(model, cache, run.tokens(), run.work(), math));
  return run.finish();
}
//! [generate]

void chapter(const kv::ChapterOptions& options, const kv::KernelOptions& kernels,
             const kv::PagedOptions& paged) {
  // Config and model, and a device that has kernels for it.
  paged.check(options);
  const kv::LoadedModel loaded = kv::load(options, std::cerr);
  const kv::Model& model = loaded.model;
  const kv::ChapterDevice device(options, kernels.paged(), model.config);
  const kv::ChapterDevice contiguous(options, kernels, model.config);  // that of chapter 4

  // Prompt.
  kv::GenerationRun run = kv::start_run(loaded, options, std::cout);

  // Generate.
  const std::int64_t max_seq_len = run.max_seq_len();
  kv::PagedCache cache(
      device.make_pool(kv::num_blocks_for(max_seq_len, paged.block_size), paged.block_size));
  kv::ChapterReport report;
  report.chapter = "05_paged_cache";
  report.change = "blocks, taken when needed";
  report.model = model.config.name;
  report.device = device.description();
  report.math = options.math->name;
  report.threads = kv::num_threads();
  report.run = generate(model, std::move(run), cache, device.math(), options);
  report.kv_bytes_per_token =
      kv::kv_bytes_per_token(kv::kv_shape(model.config), kv::kv_format(options.kv_dtype)).total();
  report.kv_bytes_held = cache.bytes_held();
  report.kv_bytes_read = device.kv_bytes_read();
  if (!paged.npz.empty()) kv::export_sequence("--export", paged.npz, cache);

  // The same steps as chapter 4 takes them.
  if (options.num_compared > 0) {
    const auto before = contiguous.make_cache(max_seq_len);
    const auto cached = [&](std::span<const kv::TokenId> prefix, kv::Work* work) {
      const auto new_tokens = prefix.subspan(static_cast<std::size_t>(before->length()));
      return kv::prefill(model, *before, new_tokens, options.chunk, work, contiguous.math());
    };
    report.agreement =
        kv::compare(report.run, model.config, options.kv_dtype, cached, device.product_dtype());
  }

  // Several sequences in one pool: what they share, what is copied, what comes back.
  kv::PagingStoryTellers tellers;
  tellers.loaded = &loaded;
  tellers.pool = device.make_pool(kv::num_story_blocks(loaded, paged.block_size), paged.block_size);
  tellers.math = device.math();
  tellers.make_solo_cache = [&](std::int64_t n) { return contiguous.make_cache(n); };
  tellers.solo_math = contiguous.math();
  tellers.product_dtype = device.product_dtype();
  kv::show_paging_story(tellers, paged, std::cout);

  // Report: the lines that every chapter ends with.
  kv::publish(report, options);
}

}  // namespace

int main(int argc, char** argv) {
  kv::KernelOptions kernels;
  kernels.decode = kv::AttentionStep::grouped;
  kv::PagedOptions paged;
  return kv::run_chapter(
      argc, argv, "Chapter 5: blocks and a block table, prefix sharing, copy-on-write",
      KV_DEFAULT_MODEL,
      [&](const kv::ChapterOptions& options) { chapter(options, kernels, paged); },
      paged.extras(kernels.extras()));
}
