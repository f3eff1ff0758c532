// Three sequences in one pool, step by step: what they share, what is copied, what comes back.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <string>

#include "kv/cache/paged.hpp"
#include "kv/load.hpp"
#include "kv/math.hpp"
#include "kv/report/block_trace.hpp"

namespace kv {

/// The options that only the paged cache has.
struct PagedOptions {
  std::int32_t block_size = 16;  ///< tokens of a block
  std::string trace;             ///< file for every event of the allocator as JSON, or empty
  std::string npz;               ///< file for the arrays of the run's own sequence, or empty

  /// What run_chapter() takes: these options and those of `base`. This must outlive it.
  ChapterExtras extras(ChapterExtras base);
  /// Finds out before the run what would fail after it.
  /// \throws InputError when a file cannot be written, or its content is not within reach
  void check(const ChapterOptions& options) const;
};

/// What the story is told with.
struct PagingStoryTellers {
  const LoadedModel* loaded = nullptr;  ///< the model that writes
  std::shared_ptr<PagedPool> pool;      ///< empty, with num_story_blocks() blocks at least
  Math math;                            ///< for forward() over sequences of the pool
  /// A contiguous cache for so many tokens, and what reads it: a sequence alone.
  std::function<std::unique_ptr<SequenceState>(std::int64_t)> make_solo_cache;
  Math solo_math;                    ///< for forward() over that cache
  DType product_dtype = DType::f32;  ///< as for logits_atol()
  BlockTrace* trace = nullptr;       ///< if not null, hears every step
};

/// What came out of it.
struct PagingStory {
  std::int64_t block_bytes = 0;    ///< K and V of a block in all layers
  std::int64_t blocks_held = 0;    ///< by all sequences together, when they held most
  std::int64_t blocks_alone = 0;   ///< that the same sequences would hold if none were shared
  std::int64_t rows_computed = 0;  ///< through the model
  std::int64_t rows_alone = 0;     ///< that it would have taken without sharing
  std::int64_t num_copies = 0;     ///< blocks copied before a write
  double logit_difference = 0.0;   ///< largest, of a sequence in the batch to the same one alone
  double bound = 0.0;              ///< what rounding allows
  bool tokens_equal = false;       ///< alone, every sequence writes the same
  bool all_returned = false;       ///< at the end free + known blocks are all there are
};

/// Blocks that the story needs.
std::int64_t num_story_blocks(const LoadedModel& loaded, std::int32_t block_size);

/// Prompt A is computed; B begins alike and takes A's blocks; C is forked from A and writes another
/// word, for which one block is copied; the three write on together; one ends, then all.
///
/// \param with model, tokenizer, pool and options of the story
/// \param out  receives each step's words and block tables
/// \throws InputError when the model's context is too short for the story
PagingStory tell_paging_story(const PagingStoryTellers& with, std::ostream& out);

/// Tells the story, prints what sharing has saved, and writes the trace that --trace asks for.
///
/// \throws as tell_paging_story(); std::runtime_error, after printing, when a sequence is not what
/// it
///         is alone, or a block did not return
void show_paging_story(PagingStoryTellers with, const PagedOptions& options, std::ostream& out);

}  // namespace kv
