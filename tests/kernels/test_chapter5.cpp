// Chapter 5 equals chapter 4: the decoder over blocks on a device against the contiguous cache
// there.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <memory>
#include <sstream>
#include <vector>

#include "chapter_device.hpp"
#include "decoder_pair.hpp"
#include "kv/cache/paged.hpp"
#include "kv/report/paging_story.hpp"
#include "support/random_model.hpp"
#include "support/real_models.hpp"

namespace {

using kv::Backend, kv::DType, kv::PagedCache;
using kv_test::feed_all, kv_test::Pair, kv_test::random_tokens, kv_test::RandomModelShape;
using kv_test::Side, kv_test::Tokens;

kv::Model small_model(int head_dim, int group, unsigned seed) {
  const RandomModelShape shape = {.num_layers = 2,
                                  .num_q_heads = 2 * group,
                                  .num_kv_heads = 2,
                                  .head_dim = head_dim,
                                  .d_model = 64,
                                  .ffn_dim = 96,
                                  .seed = seed};
  return kv_test::random_model(shape);
}

// Chapter 4 or chapter 5 of a model: what --device and --kv-dtype make of it.
kv::ChapterDevice chapter(const kv::Model& model, DType dtype, bool is_paged,
                          const char* device = "emulated") {
  kv::ChapterOptions options;
  options.device = device;
  options.kv_dtype = dtype;
  options.math = &kv::fast_math();
  kv::KernelOptions kernels;
  kernels.decode = kv::AttentionStep::grouped;
  return {options, is_paged ? kernels.paged() : kernels, model.config};
}

// A sequence of a pool whose free blocks lie in no order: others took them and gave them back.
Side shuffled(const kv::ChapterDevice& device, std::int64_t capacity, std::int32_t block_size) {
  const auto pool = device.make_pool(kv::num_blocks_for(capacity, block_size) + 5, block_size);
  {
    std::vector<PagedCache> others;
    for (int i = 0; i < 5; ++i) others.emplace_back(pool);
    for (const int i : {3, 0, 4, 1, 2}) REQUIRE(others[i].reserve(1));
    for (const int i : {2, 4, 0, 3, 1}) others[i].truncate(0);
  }
  return {std::make_unique<PagedCache>(pool), device.math()};
}

Pair chapters_4_and_5(const kv::Model& model, DType dtype, std::int64_t capacity,
                      std::int32_t block_size, const char* device = "emulated") {
  const kv::ChapterDevice before = chapter(model, dtype, false, device);
  const kv::ChapterDevice paged = chapter(model, dtype, true, device);
  return {model,
          dtype,
          paged.product_dtype(),
          {before.make_cache(capacity), before.math()},
          shuffled(paged, capacity, block_size)};
}

}  // namespace

TEST_CASE("chapter 5: every block size and chunk agrees with chapter 4", "[kernels][chapter5]") {
  const std::int32_t block_size = GENERATE(1, 2, 4, 8, 16, 64, 256);
  const kv::Model model = small_model(32, 2, 1);
  const auto tokens = random_tokens(22, model.config.vocab_size, 2);
  for (const std::size_t chunk : {1, 5, 100}) {
    Pair pair = chapters_4_and_5(model, DType::f32, 22, block_size);
    CHECK(feed_all(pair, tokens, 17, chunk) > 0);
  }
}

TEST_CASE("chapter 5: head sizes, groups and formats agree with chapter 4", "[kernels][chapter5]") {
  const int head_dim = GENERATE(32, 64, 80, 128);
  const int group = GENERATE(1, 3, 4);
  const kv::Model model = small_model(head_dim, group, 3);
  const auto tokens = random_tokens(20, model.config.vocab_size, 4);
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    Pair pair = chapters_4_and_5(model, dtype, 20, 16);
    feed_all(pair, tokens, 17, 100);
  }
}

TEST_CASE("chapter 5: the checking emulator finds nothing in a whole pass", "[kernels][chapter5]") {
  const auto dtype = GENERATE(DType::f32, DType::bf16);
  const kv::Model model = small_model(32, 2, 5);
  const auto tokens = random_tokens(7, model.config.vocab_size, 6);
  Pair pair = chapters_4_and_5(model, dtype, 7, 4, "checked");
  feed_all(pair, tokens, 5, 3);
}

TEST_CASE("chapter 5: a batch of different sequences in one pool gives each its own logits",
          "[kernels][chapter5]") {
  const kv::Model model = small_model(32, 2, 7);
  const kv::ChapterDevice device = chapter(model, DType::f32, true);
  const auto pool = device.make_pool(14, 4);
  std::vector<PagedCache> actual;
  std::vector<kv::ContiguousCache> expected;
  for (int b = 0; b < 3; ++b) {
    actual.emplace_back(pool);
    expected.emplace_back(model.config, 20);
  }
  // The second starts late, the third decodes while the others prefill; blocks interleave.
  const std::vector<std::vector<int>> passes = {{5, 0, 1}, {1, 4, 7}, {1, 1, 1}, {3, 1, 0}};
  unsigned seed = 10;
  for (const auto& counts : passes) {
    std::vector<std::vector<kv::TokenId>> tokens;
    for (const int count : counts)
      tokens.push_back(random_tokens(count, model.config.vocab_size, seed++));
    std::vector<kv::BatchItem> device_batch, cpu_batch;
    for (int b = 0; b < 3; ++b) {
      if (counts[b] == 0) continue;
      device_batch.push_back({&actual[b], tokens[b]});
      cpu_batch.push_back({&expected[b], tokens[b]});
    }
    const kv::RowMajor on_cpu = kv::forward(model, cpu_batch);
    const kv::RowMajor on_device = kv::forward(model, device_batch, nullptr, device.math());
    const double atol = kv::logits_atol(model.config, DType::f32, on_cpu.cwiseAbs().maxCoeff());
    REQUIRE((on_device - on_cpu).cwiseAbs().maxCoeff() <= atol);
  }
}

TEST_CASE("chapter 5: the story holds on a device, in either format",
          "[kernels][chapter5][model]") {
  const auto loaded = kv_test::load_or_skip(kv_test::shakespeare_path());
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  const std::int32_t block_size = GENERATE(4, 16);
  const kv::ChapterDevice device = chapter(loaded.model, dtype, true);
  const kv::ChapterDevice before = chapter(loaded.model, dtype, false);
  kv::PagingStoryTellers tellers;
  tellers.loaded = &loaded;
  tellers.pool = device.make_pool(kv::num_story_blocks(loaded, block_size), block_size);
  tellers.math = device.math();
  tellers.make_solo_cache = [&](std::int64_t n) { return before.make_cache(n); };
  tellers.solo_math = before.math();
  tellers.product_dtype = device.product_dtype();
  std::ostringstream out;
  const kv::PagingStory story = kv::tell_paging_story(tellers, out);
  INFO(out.str());
  CHECK(story.num_copies == 1);
  CHECK(story.tokens_equal);
  CHECK(story.logit_difference <= story.bound);
  CHECK(story.all_returned);
}

TEST_CASE("chapter 5: the embedded model and SmolLM2 agree with chapter 4",
          "[kernels][chapter5][model]") {
  const bool smollm2 = GENERATE(false, true);
  const auto loaded =
      kv_test::load_or_skip(smollm2 ? kv_test::smollm2_path() : kv_test::shakespeare_path());
  const auto tokens = loaded.tokenizer.encode(smollm2 ? "The capital of France is Paris"
                                                      : "First Citizen:\nBefore we proceed any");
  Pair pair = chapters_4_and_5(loaded.model, DType::f32, 32, 4);
  CHECK(feed_all(pair, tokens, tokens.size() - 2, 512) == 3);
}
