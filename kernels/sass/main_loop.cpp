#include "sass/main_loop.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <functional>

#include "sass/instruction.hpp"

namespace kv::sass {
namespace {

using Feature = std::function<bool(const Word&)>;

bool is_mma(const Word& word) { return opcode(word) == Opcode::mma; }
bool is_fma(const Word& word) { return opcode(word) == Opcode::ffma; }

int count(const std::vector<Word>& code, const Loop& loop, const Feature& feature) {
  return static_cast<int>(
      std::ranges::count_if(loop.instructions, [&](int i) { return feature(code[i]); }));
}

bool is_inside(const Loop& inner, const Loop& outer) {
  return inner.header != outer.header &&
         std::ranges::binary_search(outer.instructions, inner.header);
}

// The loop with most of a feature, among those without a loop inside that has it too.
const Loop* find_innermost(const std::vector<Word>& code, const std::vector<Loop>& loops,
                           const Feature& feature) {
  const Loop* best = nullptr;
  int best_count = 0;
  for (const Loop& loop : loops) {
    const int found = count(code, loop, feature);
    if (found == 0 || found < best_count) continue;
    if (std::ranges::any_of(loops, [&](const Loop& other) {
          return is_inside(other, loop) && count(code, other, feature) > 0;
        }))
      continue;
    if (best != nullptr && found == best_count &&
        loop.instructions.size() >= best->instructions.size())
      continue;
    best = &loop;
    best_count = found;
  }
  return best;
}

// The asynchronous copies of one thread, in groups that a wait retires oldest first.
class Copies {
 public:
  void start(int bytes) { open_ += bytes; }
  void close_group() {
    groups_.push_back(open_);
    open_ = 0;
  }
  void wait(int pending) {
    while (std::ssize(groups_) > pending) groups_.pop_front();
  }
  int bytes() const {
    int sum = open_;
    for (const int group : groups_) sum += group;
    return sum;
  }

 private:
  int open_ = 0;  // not yet in a group
  std::deque<int> groups_;
};

}  // namespace

int bytes_in_flight(const std::vector<Word>& code, const std::vector<int>& instructions,
                    int architecture) {
  // Enough passes for any ring of buffers to fill; the wait of a group is then what limits.
  constexpr int kPasses = 16;
  std::array<int, kNumScoreboards> loads{};  // bytes that lower each scoreboard
  Copies copies;
  bool waits_for_groups = false;
  for (const int i : instructions)
    waits_for_groups = waits_for_groups || opcode(code[i]) == Opcode::wait_for_group;
  int most = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    for (const int i : instructions) {
      const Word& word = code[i];
      for (int b = 0; b < kNumScoreboards; ++b)
        if (waited_scoreboards(word) >> b & 1) loads[b] = 0;
      switch (opcode(word)) {
        case Opcode::load_global:
          if (const int b = result_scoreboard(word); b < kNumScoreboards)
            loads[b] += access_bytes(word, architecture);
          break;
        case Opcode::copy_async:
          // Without a wait in the loop nothing says how many are under way.
          if (waits_for_groups) copies.start(access_bytes(word, architecture));
          break;
        case Opcode::close_group:
          copies.close_group();
          break;
        case Opcode::wait_for_group:
          copies.wait(pending_groups(word));
          break;
        default:
          break;
      }
      int now = copies.bytes();
      for (const int bytes : loads) now += bytes;
      most = std::max(most, now);
    }
  }
  return most;
}

std::optional<LoopCounts> count_main_loop(const std::vector<Word>& code, int architecture) {
  const std::vector<Loop> loops = find_loops(code, architecture);
  const auto is_wide_load = [&](const Word& word) {
    return reads_global(word) && access_bytes(word, architecture) == 16;
  };
  const Loop* loop = find_innermost(code, loops, is_mma);
  if (loop == nullptr) loop = find_innermost(code, loops, is_wide_load);
  if (loop == nullptr) loop = find_innermost(code, loops, is_fma);
  if (loop == nullptr) return std::nullopt;

  LoopCounts counts;
  counts.instructions =
      count(code, *loop, [](const Word& word) { return opcode(word) != Opcode::nop; });
  counts.mma = count(code, *loop, is_mma);
  counts.fma = count(code, *loop, is_fma);
  counts.global_loads = count(code, *loop, reads_global);
  counts.wide_global_loads = count(code, *loop, is_wide_load);
  counts.wide_load_bytes = 16 * counts.wide_global_loads;
  counts.bytes_in_flight = bytes_in_flight(code, loop->instructions, architecture);
  counts.has_inner_loop =
      std::ranges::any_of(loops, [&](const Loop& other) { return is_inside(other, *loop); });
  return counts;
}

}  // namespace kv::sass
