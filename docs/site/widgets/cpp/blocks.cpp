// The block-table stepper: sequences that a reader enters, the course's BlockAllocator, and the
// trace that shows what it does.
//
// Text comes one byte a call and is then entered or appended, a token a word. What a page may ask
// for wrongly is refused before the allocator is called, so a refusal changes nothing.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kv/cache/block_allocator.hpp"
#include "kv/check.hpp"
#include "kv/report/block_trace.hpp"
#include "widget.hpp"

namespace kv {
namespace {

constexpr int kMostSequences = 26;  // a letter each
// The JSON text of all steps, with the texts of their tokens, is made anew after each operation.
constexpr int kMostSteps = 200;
constexpr std::size_t kMostTexts = 40'000;
constexpr std::size_t kMostBytes = 4000;  // typed at once

std::string plural(std::size_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

// A sequence that runs, or one that has ended and keeps its letter.
struct Sequence {
  std::string name;
  BlockTable table;
  std::vector<std::int32_t> tokens;  // [table.length]
  bool runs = true;
};

class Stage {
 public:
  Stage(BlockId num_blocks, std::int32_t block_size)
      : allocator_(num_blocks, block_size), trace_(allocator_) {}

  // A prompt's known blocks are adopted, the rest is computed, and others may find its full blocks.
  void enter(const std::string& text) {
    const std::vector<std::int32_t> tokens = tokens_of(text, "");
    Sequence& entered = add();
    const std::int32_t number = number_of(entered);
    const auto found =
        static_cast<std::size_t>(allocator_.adopt_prefix(entered.table, tokens, 0, number));
    if (!write(entered, tokens.size() - found)) {
      allocator_.truncate(entered.table, 0, nullptr, number);
      const std::string words = entered.name + " must wait: there are too few blocks for its " +
                                plural(tokens.size(), "token") + ".";
      sequences_.pop_back();
      return show(words);
    }
    entered.tokens = tokens;
    allocator_.publish(entered.table, tokens, 0, number);
    show(entered.name + " enters with " + plural(tokens.size(), "token") +
         (found == 0 ? ": none is known, all are computed."
                     : ": " + std::to_string(found) + " in known blocks, " +
                           std::to_string(tokens.size() - found) + " computed."));
  }

  void append(double sequence, const std::string& text) {
    Sequence& writer = running(sequence);
    const std::vector<std::int32_t> tokens = tokens_of(text, " ");
    const auto copies = write(writer, tokens.size());
    if (!copies)
      return show(writer.name + " cannot append " + plural(tokens.size(), "token") +
                  ": there are too few blocks. Nothing has changed.");
    writer.tokens.insert(writer.tokens.end(), tokens.begin(), tokens.end());
    std::string words = writer.name + " appends " + plural(tokens.size(), "token") + ".";
    for (const BlockCopy& copy : *copies)
      words += " Block " + std::to_string(copy.from) + " has other holders, so " + writer.name +
               " writes to a copy, block " + std::to_string(copy.to) + ".";
    show(words);
  }

  void fork(double sequence) {
    const std::size_t parent = index_of(sequence);
    Sequence& child = add();
    child.table = allocator_.fork(sequences_[parent].table, number_of(child));
    child.tokens = sequences_[parent].tokens;
    show(child.name + " is forked from " + sequences_[parent].name +
         ": the same blocks, none taken, nothing copied.");
  }

  void publish(double sequence) {
    const Sequence& giver = running(sequence);
    const std::int64_t before = allocator_.index().size();
    allocator_.publish(giver.table, giver.tokens, 0, number_of(giver));
    show(allocator_.index().size() == before
             ? giver.name + " has no full block whose tokens are not known already."
             : "From now on others find the full blocks of " + giver.name + ".");
  }

  void end(double sequence) {
    Sequence& leaver = running(sequence);
    allocator_.truncate(leaver.table, 0, nullptr, number_of(leaver));
    leaver.runs = false;
    show(leaver.name + " ends and gives its blocks back.");
  }

  void check_room() const {
    if (num_steps_ == kMostSteps || num_texts_ > kMostTexts)
      throw InputError("no more steps can be kept: start anew");
  }

  Json json() const { return trace_.json(); }

 private:
  Sequence& add() {
    if (sequences_.size() == kMostSequences)
      throw InputError("every letter has been a sequence: start anew");
    const char name = static_cast<char>('A' + sequences_.size());
    return sequences_.emplace_back(Sequence{std::string(1, name), {allocator_.block_size()}, {}});
  }

  std::size_t index_of(double sequence) const {
    const auto index = static_cast<std::size_t>(whole(sequence, "a sequence", 0, kMostSequences));
    if (index >= sequences_.size() || !sequences_[index].runs)
      throw InputError("no such sequence runs");
    return index;
  }
  Sequence& running(double sequence) { return sequences_[index_of(sequence)]; }
  std::int32_t number_of(const Sequence& sequence) const {
    return static_cast<std::int32_t>(&sequence - sequences_.data());
  }

  // One token a word, with the space before it; `first` stands before the first one.
  std::vector<std::int32_t> tokens_of(const std::string& text, const std::string& first) {
    std::vector<std::string> words;
    bool inside = false;
    for (const char c : text) {
      const bool space = c == ' ' || c == '\n' || c == '\t' || c == '\r';
      if (!space && !inside) words.push_back(words.empty() ? first : " ");
      if (!space) words.back() += c;
      inside = !space;
    }
    if (words.empty()) throw InputError("type at least one word");
    std::vector<std::int32_t> tokens;
    for (std::string& word : words) {
      const auto known = std::ranges::find(vocabulary_, word);
      tokens.push_back(static_cast<std::int32_t>(known - vocabulary_.begin()));
      if (known == vocabulary_.end()) vocabulary_.push_back(std::move(word));
    }
    return tokens;
  }

  // Slots, then the rows, then the length, as PagedCache does it. A token here is all of its row.
  // \return what was copied; nothing when there are too few blocks
  std::optional<std::vector<BlockCopy>> write(Sequence& writer, std::size_t num_tokens) {
    const auto count = static_cast<std::int64_t>(num_tokens);
    std::vector<BlockCopy> copies;
    if (!allocator_.reserve(writer.table, count, copies, number_of(writer))) return std::nullopt;
    writer.table.length += count;
    return copies;
  }

  void show(const std::string& words) {
    std::vector<TracedTable> traced;
    for (const Sequence& sequence : sequences_) {
      if (!sequence.runs) continue;
      TracedTable& shown = traced.emplace_back(TracedTable{sequence.name, &sequence.table});
      num_texts_ += sequence.tokens.size();
      for (const std::int32_t token : sequence.tokens)
        shown.texts.push_back(vocabulary_[static_cast<std::size_t>(token)]);
    }
    trace_.end_step(words, traced);
    ++num_steps_;
  }

  BlockAllocator allocator_;
  BlockTrace trace_;
  std::vector<Sequence> sequences_;      // by number
  std::vector<std::string> vocabulary_;  // text of a token
  int num_steps_ = 0;
  std::size_t num_texts_ = 0;  // in all of them
};

std::unique_ptr<Stage> the_stage;
std::string typed;

// What has been typed is used once, whatever comes of it.
std::string take_typed() { return std::exchange(typed, {}); }

Stage& stage() {
  if (!the_stage) throw InputError("start first");
  return *the_stage;
}

Stage& stage_with_room() {
  stage().check_room();
  return stage();
}

}  // namespace
}  // namespace kv

using namespace kv;

/// An empty pool of `num_blocks` blocks of `block_size` tokens, and no sequence.
KV_WIDGET(blocks_start)(double block_size, double num_blocks) {
  const std::int64_t size = whole(block_size, "tokens a block", 1, 16);
  const std::int64_t blocks = whole(num_blocks, "blocks", 1, 64);
  the_stage.reset();  // the old one's trace goes before its allocator
  the_stage =
      std::make_unique<Stage>(static_cast<BlockId>(blocks), static_cast<std::int32_t>(size));
  take_typed();
  return answer(Json());
}

/// One more byte, in UTF-8, of the text for blocks_enter or blocks_append.
KV_WIDGET(blocks_type)(double byte) {
  if (typed.size() == kMostBytes) throw InputError("the text is too long");
  typed += static_cast<char>(whole(byte, "a byte", 0, 255));
  return answer(Json());
}

/// A new sequence with the typed text as its prompt.
KV_WIDGET(blocks_enter)() {
  const std::string text = take_typed();
  stage_with_room().enter(text);
  return answer(Json());
}

/// Appends the typed text. \param sequence 0 is A
KV_WIDGET(blocks_append)(double sequence) {
  const std::string text = take_typed();
  stage_with_room().append(sequence, text);
  return answer(Json());
}

/// A new sequence of the same tokens.
KV_WIDGET(blocks_fork)(double sequence) {
  stage_with_room().fork(sequence);
  return answer(Json());
}

/// Lets prompts to come find the full blocks of a sequence.
KV_WIDGET(blocks_publish)(double sequence) {
  stage_with_room().publish(sequence);
  return answer(Json());
}

/// Ends a sequence.
KV_WIDGET(blocks_end)(double sequence) {
  stage_with_room().end(sequence);
  return answer(Json());
}

/// All steps since blocks_start, as src/kv/report/block_trace.hpp describes them.
KV_WIDGET(blocks_trace)() { return answer(stage().json()); }
