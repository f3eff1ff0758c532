// The story of chapter 5: exact ids for a known prompt and block size, whatever the model computes.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <memory>
#include <sstream>

#include "kv/attention/attention.hpp"
#include "kv/cache/contiguous.hpp"
#include "kv/load.hpp"
#include "kv/report/paging_story.hpp"

namespace {

using Catch::Matchers::ContainsSubstring;

kv::PagingStoryTellers tellers(const kv::LoadedModel& loaded, std::int32_t block_size,
                               kv::KvDType dtype = kv::DType::f32) {
  const kv::ModelConfig& c = loaded.model.config;
  kv::PagingStoryTellers with;
  with.loaded = &loaded;
  with.pool = kv::make_host_pool(
      {c.heads, c.num_layers, static_cast<kv::BlockId>(kv::num_story_blocks(loaded, block_size)),
       block_size, dtype});
  with.math = with.solo_math = kv::fast_math();
  with.make_solo_cache = [&c, dtype](std::int64_t n) {
    return std::make_unique<kv::ContiguousCache>(c, n, dtype);
  };
  return with;
}

const kv::LoadedModel& embedded() {
  static std::ostringstream warnings;
  static const kv::LoadedModel loaded =
      kv::load(KV_SOURCE_DIR "/chapters/00_model/shakespeare.gguf", warnings);
  return loaded;
}

}  // namespace

TEST_CASE("paging story: tables show shared blocks, one copy, and what comes back", "[paging]") {
  const kv::PagingStoryTellers with = tellers(embedded(), 16);
  std::ostringstream out;
  const kv::PagingStory story = kv::tell_paging_story(with, out);
  INFO(out.str());
  for (const char* line :
       {"A arrives: a prompt of 77 tokens", "A             77  [0 1 2 3 4]",
        "64 tokens are found in 4 full blocks, 13 computed", "B             77  [0 1 2 3 5]",
        "C             77  [0 1 2 3 4]", "(1 block copied)", "A             78  [0 1 2 3 6]",
        "C             78  [0 1 2 3 4]", "A             86  [0 1 2 3 6 7]",
        "B             85  [0 1 2 3 5 9]", "C             86  [0 1 2 3 4 8]",
        "pool: 10 blocks in tables, 0 kept for the next prompt like theirs, 8 free",
        "A ends: [6 7] return, [0 1 2 3] stay", "pool: 8 blocks in tables",
        "pool: 0 blocks in tables, 4 kept for the next prompt like theirs, 14 free"})
    CHECK_THAT(out.str(), ContainsSubstring(line));
  CHECK(story.blocks_held == 10);
  CHECK(story.blocks_alone == 18);
  CHECK(story.rows_alone - story.rows_computed == 64 + 77);
  CHECK(story.num_copies == 1);
  CHECK(story.tokens_equal);
  CHECK(story.all_returned);
  CHECK(story.logit_difference <= story.bound);
}

TEST_CASE("paging story: holds for every block size and format", "[paging]") {
  for (const kv::KvDType dtype : {kv::DType::f32, kv::DType::bf16})
    for (const std::int32_t block_size : {1, 2, 3, 4, 7, 8, 16, 32, 64, 128, 256}) {
      INFO("block size " << block_size);
      const kv::PagingStoryTellers with = tellers(embedded(), block_size, dtype);
      std::ostringstream out;
      const kv::PagingStory story = kv::tell_paging_story(with, out);
      INFO(out.str());
      // A block of one token is never filled in part: there is nothing to copy.
      CHECK(story.num_copies == (block_size == 1 ? 0 : 1));
      CHECK(story.blocks_held <= story.blocks_alone);
      if (block_size <= 32)
        CHECK(story.blocks_held < story.blocks_alone);  // a full block is common
      CHECK(story.rows_computed < story.rows_alone);
      CHECK(story.tokens_equal);
      CHECK(story.all_returned);
      CHECK(story.logit_difference <= story.bound);
      CHECK(with.pool->allocator.pool().num_free() + with.pool->allocator.index().num_idle() ==
            with.pool->allocator.pool().num_blocks());
    }
}
