#include "kv/report/paging_story.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <ostream>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "kv/agreement.hpp"
#include "kv/report/output_file.hpp"
#include "kv/report/table.hpp"

namespace kv {

namespace {

constexpr std::string_view kBeginning =
    "First Citizen:\nBefore we proceed any further, hear me speak.\n\nAll:\nSpeak, speak.\n\n"
    "First Citizen:\nYou are all resolved rather to die than to famish?\n\nAll:\nResolved. "
    "resolved.\n\n";
constexpr std::string_view kEndings[] = {"First Citizen:\n", "Second Citizen:\n"};
constexpr std::int64_t kStepsTogether = 8;

// A sequence with a name. Its tokens are those that its cache holds and one more: the next to feed.
struct Actor {
  std::string name;
  PagedCache cache;
  std::vector<TokenId> tokens;
  std::vector<std::vector<float>> logits;  // [step][vocab_size] of its steps in the batch
  std::vector<float> last_logits;          // [vocab_size] that the next token was chosen from

  void choose(const float* first, std::int64_t count) {
    last_logits.assign(first, first + count);
    tokens.push_back(argmax(last_logits));
  }
};

std::vector<TokenId> prompt(const LoadedModel& loaded, int i) {
  return loaded.tokenizer.encode(std::string(kBeginning) + std::string(kEndings[i]));
}

// Tokens of the longest sequence: the prompt, a word to leave a full block, the word in which A and
// C differ, and those that all write together.
std::int64_t longest(const LoadedModel& loaded) {
  std::size_t most = 0;
  for (int i = 0; i < 2; ++i) most = std::max(most, prompt(loaded, i).size());
  return static_cast<std::int64_t>(most) + 2 + kStepsTogether;
}

TokenId second_likeliest(std::vector<float> logits) {
  logits[static_cast<std::size_t>(argmax(logits))] = -INFINITY;
  return argmax(logits);
}

std::string ids(std::span<const BlockId> blocks) {
  return fmt::format("[{}]", fmt::join(blocks, " "));
}

std::string plural(std::int64_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

class Stage {
 public:
  Stage(const PagingStoryTellers& with, std::ostream& out) : with_(with), out_(out) {}

  Actor enter(std::string name, std::vector<TokenId> tokens) {
    return {std::move(name), PagedCache(with_.pool, num_entered_++), std::move(tokens), {}, {}};
  }

  //! [prefix]
  // Computes what no known block holds of the prompt. \return tokens that were found
  std::int64_t prefill(Actor& actor) {
    const std::int64_t found = actor.cache.adopt_prefix(actor.tokens);
    const auto rest = std::span<const TokenId>(actor.tokens).subspan(found);
    reserve(actor, static_cast<std::int64_t>(rest.size()));
    const BatchItem item{&actor.cache, rest};
    const RowMajor logits = pass({&item, 1});
    actor.cache.publish(actor.tokens);  // from now on others find its full blocks
    actor.choose(logits.data(), logits.size());
    return found;
  }
  //! [prefix]

  //! [batch]
  // One token of each sequence through the model, all in one pass; each then has its next token.
  void step(std::span<Actor* const> actors) {
    std::vector<BatchItem> batch;
    for (Actor* actor : actors) {
      reserve(*actor, 1);
      batch.push_back({&actor->cache, std::span<const TokenId>(actor->tokens).last(1)});
    }
    const RowMajor logits = pass(batch);
    for (std::size_t i = 0; i < actors.size(); ++i) {
      actors[i]->choose(logits.row(static_cast<Eigen::Index>(i)).data(), logits.cols());
      actors[i]->logits.push_back(actors[i]->last_logits);
    }
  }
  //! [batch]

  // Words and tables of one step of the story.
  void show(const std::string& words, std::vector<const Actor*> actors) {
    Table table({"sequence", "tokens", "block table"}, {Align::left, Align::right, Align::left});
    std::vector<TracedTable> traced;
    std::vector<BlockId> held;
    for (const Actor* actor : actors) {
      const BlockTable& blocks = actor->cache.table();
      table.add_row({actor->name, std::to_string(blocks.length), ids(blocks.blocks)});
      traced.push_back({actor->name, &blocks, texts(*actor)});
      held.insert(held.end(), blocks.blocks.begin(), blocks.blocks.end());
    }
    const auto listed = static_cast<std::int64_t>(held.size());
    std::ranges::sort(held);
    held.erase(std::ranges::unique(held).begin(), held.end());
    if (listed >= story.blocks_alone) {
      story.blocks_alone = listed;
      story.blocks_held = static_cast<std::int64_t>(held.size());
    }
    const BlockAllocator& allocator = with_.pool->allocator;
    out_ << fmt::format("\n{}. {}\n", ++num_shown_, words);
    if (!actors.empty()) out_ << table.str(3);
    out_ << fmt::format("   pool: {} in tables, {} kept for the next prompt like theirs, {} free\n",
                        plural(static_cast<std::int64_t>(held.size()), "block"),
                        allocator.index().num_idle(), allocator.pool().num_free());
    if (with_.trace != nullptr) with_.trace->end_step(words, traced);
  }

  // Repeats what an actor did, alone in a contiguous cache.
  void check_alone(const Actor& actor) {
    const Model& model = with_.loaded->model;
    const std::size_t num_steps = actor.logits.size();
    const std::size_t num_before = actor.tokens.size() - 1 - num_steps;
    const std::span<const TokenId> tokens = actor.tokens;
    const auto alone = with_.make_solo_cache(static_cast<std::int64_t>(tokens.size()));
    kv::prefill(model, *alone, tokens.first(num_before), 512, nullptr, with_.solo_math);
    double largest = 0.0;
    for (std::size_t i = 0; i < num_steps; ++i) {
      const std::vector<float> logits =
          forward(model, *alone, tokens.subspan(num_before + i, 1), nullptr, with_.solo_math);
      for (std::size_t t = 0; t < logits.size(); ++t) {
        const double difference = std::fabs(double{logits[t]} - actor.logits[i][t]);
        // Written so that a NaN stays.
        if (!(difference <= story.logit_difference)) story.logit_difference = difference;
        largest = std::max(largest, std::fabs(double{logits[t]}));
      }
      story.tokens_equal = story.tokens_equal && argmax(logits) == argmax(actor.logits[i]);
    }
    story.bound =
        std::max(story.bound, logits_atol(model.config, with_.pool->storage->shape().dtype, largest,
                                          with_.product_dtype));
  }

  PagingStory story{.tokens_equal = true};

 private:
  // One a token that the cache holds.
  std::vector<std::string> texts(const Actor& actor) const {
    std::vector<std::string> all;
    for (std::int64_t t = 0; t < actor.cache.length(); ++t)
      all.push_back(
          with_.loaded->tokenizer.decode({&actor.tokens[static_cast<std::size_t>(t)], 1}));
    return all;
  }

  void reserve(Actor& actor, std::int64_t num_tokens) {
    require(actor.cache.reserve(num_tokens), "num_story_blocks() is enough for the story");
  }

  RowMajor pass(std::span<const BatchItem> batch) {
    Work work;
    RowMajor logits = forward(with_.loaded->model, batch, &work, with_.math);
    story.rows_computed += work.rows;
    return logits;
  }

  const PagingStoryTellers& with_;
  std::ostream& out_;
  int num_shown_ = 0;
  std::int32_t num_entered_ = 0;
};

}  // namespace

ChapterExtras PagedOptions::extras(ChapterExtras base) {
  const auto declare = [this, base](CLI::App& app) {
    if (base.declare) base.declare(app);
    app.add_option("--block-size", block_size, "tokens of a block")
        ->check(CLI::Range(1, 256))
        ->capture_default_str();
    app.add_option("--export", npz,
                   "write the sequence's blocks and table as .npz to this file (--device cpu)");
    app.add_option("--trace", trace, "write every event of the allocator as JSON to this file");
  };
  return {base.has_kernels, declare};
}

void PagedOptions::check(const ChapterOptions& options) const {
  if (!trace.empty()) check_writable("--trace", trace);
  if (npz.empty()) return;
  if (options.device != "cpu")
    throw InputError("--export: it reads the memory of the host; add --device cpu");
  check_writable("--export", npz);
}

std::int64_t num_story_blocks(const LoadedModel& loaded, std::int32_t block_size) {
  return 3 * num_blocks_for(longest(loaded), block_size);
}

PagingStory tell_paging_story(const PagingStoryTellers& with, std::ostream& out) {
  const LoadedModel& loaded = *with.loaded;
  const std::int32_t block_size = with.pool->allocator.block_size();
  if (longest(loaded) > loaded.model.config.context_length)
    throw InputError("--model: its context is too short for the story of chapter 5");
  Stage stage(with, out);

  //! [story]
  Actor a = stage.enter("A", prompt(loaded, 0));
  stage.prefill(a);
  stage.show(fmt::format("A arrives: a prompt of {} tokens, all computed.", a.cache.length()),
             {&a});

  Actor b = stage.enter("B", prompt(loaded, 1));
  const std::int64_t found = stage.prefill(b);
  stage.show(fmt::format("B arrives and begins like A: {} tokens are found in {}, {} computed.",
                         found, plural(found / block_size, "full block"), b.cache.length() - found),
             {&a, &b});

  // A block that is full can be shared for good; what is copied is one filled in part.
  Actor* alone[] = {&a};
  if (a.cache.length() % block_size == 0) stage.step(alone);
  Actor c{"C", a.cache.fork(2), a.tokens, {}, {}};
  stage.show("C is forked from A: the same blocks, none taken, nothing copied.", {&a, &b, &c});

  const std::int64_t copies_before = with.pool->num_copies;
  c.tokens.back() = second_likeliest(a.last_logits);
  Actor* pair[] = {&a, &c};
  stage.step(pair);
  stage.show(fmt::format("A and C write different tokens: the first to write copies the block that "
                         "both would fill ({} copied), the other has it to itself.",
                         plural(with.pool->num_copies - copies_before, "block")),
             {&a, &b, &c});

  Actor* all[] = {&a, &b, &c};
  for (std::int64_t i = 0; i < kStepsTogether; ++i) stage.step(all);
  stage.show(
      fmt::format("The three write {} tokens more, each step one pass for all.", kStepsTogether),
      {&a, &b, &c});
  //! [story]
  stage.story.rows_alone = stage.story.rows_computed + found +
                           (c.cache.length() - static_cast<std::int64_t>(c.logits.size()));
  for (const Actor* actor : all) stage.check_alone(*actor);

  std::vector<BlockId> returned = a.cache.table().blocks, stay;
  { const Actor leaves = std::move(a); }
  std::erase_if(returned, [&](BlockId block) {
    if (with.pool->allocator.pool().num_holders(block) == 0) return false;
    stay.push_back(block);
    return true;
  });
  stage.show(
      fmt::format("A ends: {} return, {} stay, for others hold them.", ids(returned), ids(stay)),
      {&b, &c});

  { const Actor last[] = {std::move(b), std::move(c)}; }
  stage.show("All have ended: full blocks stay known by their tokens until the room is needed.",
             {});

  stage.story.block_bytes = with.pool->storage->shape().block_bytes();
  stage.story.num_copies = with.pool->num_copies;
  const BlockAllocator& allocator = with.pool->allocator;
  stage.story.all_returned =
      allocator.index().num_idle() + allocator.pool().num_free() == allocator.pool().num_blocks();
  return stage.story;
}

void show_paging_story(PagingStoryTellers with, const PagedOptions& options, std::ostream& out) {
  BlockTrace trace(with.pool->allocator);
  with.trace = &trace;
  out << fmt::format("\n\nThree sequences in one pool of {} blocks of {} tokens:\n",
                     with.pool->allocator.pool().num_blocks(), with.pool->allocator.block_size());
  const PagingStory story = tell_paging_story(with, out);
  out << fmt::format(
      "\nWhat sharing saves, counted when the three held most:\n"
      "  blocks           {} held, {} if each sequence had its own ({} against {})\n"
      "  rows computed    {} through the model, {} without (B's beginning, all of C's)\n"
      "  copied           {} on a write\n"
      "  each sequence    {}; logits differ from its run alone by {:.2g} at most (bound {:.2g})\n"
      "  at the end       {}\n",
      story.blocks_held, story.blocks_alone, format_bytes(story.blocks_held * story.block_bytes),
      format_bytes(story.blocks_alone * story.block_bytes), with_thousands(story.rows_computed),
      with_thousands(story.rows_alone), plural(story.num_copies, "block"),
      story.tokens_equal ? "writes what it writes alone" : "WRITES SOMETHING ELSE THAN ALONE",
      story.logit_difference, story.bound,
      story.all_returned ? "free and known blocks are all there are" : "BLOCKS ARE MISSING");
  if (!options.trace.empty()) trace.write("--trace", options.trace);
  if (!(story.logit_difference <= story.bound) || !story.tokens_equal || !story.all_returned)
    throw std::runtime_error("the sequences that share blocks are not what they are alone");
}

}  // namespace kv
