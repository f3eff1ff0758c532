#include "attention/split_plan.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <tuple>

#include "attention/attention.hpp"

namespace kv {
namespace {

// Slots that are busy for this share of the time are good enough: what finer parts could still gain
// is no more than what merging them costs.
constexpr double kEnough = 0.9;

// One query row of one sequence: num_heads chains of keys.
struct Chain {
  int sequence;
  int row;
  int num_keys;
};

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

std::vector<Chain> chains_of(std::span<const SequenceRows> sequences, bool causal) {
  std::vector<Chain> chains;
  for (std::size_t b = 0; b < sequences.size(); ++b)
    for (int t = 0; t < sequences[b].q_len; ++t)
      chains.push_back({static_cast<int>(b), t, visible_keys(t, sequences[b], causal)});
  return chains;
}

// How one chain is cut. Part i begins at begin(i); there is at least one part.
struct Cut {
  std::int64_t num_keys;
  std::int64_t num_parts;
  std::int64_t fixed_chunk;  // 0: into equal parts

  std::int64_t begin(std::int64_t part) const {
    if (part == num_parts) return num_keys;
    if (fixed_chunk > 0) return part * fixed_chunk;
    // In whole granules; so parts differ by one granule at most.
    return part * ceil_div(num_keys, kChunkGranule) / num_parts * kChunkGranule;
  }
  std::int64_t longest() const {
    return num_parts == 1 ? num_keys
                          : ceil_div(ceil_div(num_keys, kChunkGranule), num_parts) * kChunkGranule;
  }
};

// Equal parts of at most `cap` keys, a multiple of the granule, but none below kLeastChunk.
Cut cut_equally(std::int64_t num_keys, std::int64_t cap) {
  const std::int64_t most = std::max<std::int64_t>(1, num_keys / kLeastChunk);
  return {num_keys, std::clamp<std::int64_t>(ceil_div(num_keys, cap), 1, most), 0};
}

Cut cut_fixed(std::int64_t num_keys, std::int64_t chunk) {
  return {num_keys, std::max<std::int64_t>(1, ceil_div(num_keys, chunk)), chunk};
}

// Lengths of the parts of all chains, one for all heads, the longest first.
std::vector<std::int64_t> part_lengths(const std::vector<Chain>& chains, std::int64_t cap) {
  std::vector<std::int64_t> lengths;
  for (const Chain& chain : chains) {
    const Cut cut = cut_equally(chain.num_keys, cap);
    for (std::int64_t part = 0; part < cut.num_parts; ++part)
      lengths.push_back(cut.begin(part + 1) - cut.begin(part));
  }
  std::ranges::sort(lengths, std::ranges::greater{});
  return lengths;
}

// When the last slot is done: each takes the next item as soon as it is free.
std::int64_t finish_time(std::span<const std::int64_t> lengths, int num_heads, int num_slots) {
  std::priority_queue<std::int64_t, std::vector<std::int64_t>, std::greater<>> free_at;
  std::int64_t finish = 0;
  for (const std::int64_t length : lengths)
    for (int h = 0; h < num_heads; ++h) {
      std::int64_t start = 0;
      if (static_cast<int>(free_at.size()) == num_slots) {
        start = free_at.top();
        free_at.pop();
      }
      free_at.push(start + length);
      finish = std::max(finish, start + length);
    }
  return finish;
}

// Busy share of the slots for a list of parts. Its lower bound needs no simulation: whoever
// finishes last started when all slots were still busy, so finish <= work / slots + longest.
// Source: Graham 1966, "Bounds for certain multiprocessing anomalies".
double busy_share(std::span<const std::int64_t> lengths, int num_heads, int num_slots) {
  double work = 0.0;
  for (const std::int64_t length : lengths) work += static_cast<double>(length) * num_heads;
  if (work == 0.0) return 1.0;
  const double least = work / num_slots;
  const double bound = least / (least + static_cast<double>(lengths.front()));
  if (bound >= kEnough) return bound;
  return least / static_cast<double>(finish_time(lengths, num_heads, num_slots));
}

// Parts that take up a slot for a wave: those of more than half the cap. Shorter ones fill gaps.
std::int64_t count_long_parts(const std::vector<Chain>& chains, int num_heads, std::int64_t cap) {
  std::int64_t count = 0;
  for (const Chain& chain : chains) {
    const Cut cut = cut_equally(chain.num_keys, cap);
    if (2 * cut.longest() > cap) count += num_heads * cut.num_parts;
  }
  return count;
}

// The smallest cap, in granules and from `low` to `high`, with no more than `most` long parts.
std::int64_t smallest_cap(const std::vector<Chain>& chains, int num_heads, std::int64_t most,
                          std::int64_t low, std::int64_t high) {
  while (low < high) {
    const std::int64_t middle = (low + high) / 2;
    if (count_long_parts(chains, num_heads, middle * kChunkGranule) <= most)
      high = middle;
    else
      low = middle + 1;
  }
  return high;
}

//! [choose cap]
// The longest parts that keep the slots busy. Whole chains, if they do; else, for 1, 2, ... waves
// of CTAs: how short must parts be so that all slots of that many waves have one? The first that
// is good enough wins; with too little work for any, the one that leaves the least idle.
std::int64_t choose_cap(const std::vector<Chain>& chains, int num_heads, int num_slots) {
  std::int64_t longest = 1, work = 0;
  for (const Chain& chain : chains) {
    longest = std::max<std::int64_t>(longest, chain.num_keys);
    work += static_cast<std::int64_t>(chain.num_keys) * num_heads;
  }
  const std::int64_t least = kLeastChunk / kChunkGranule;
  const std::int64_t uncut = std::max(least, ceil_div(longest, kChunkGranule));  // in granules
  std::int64_t best_cap = uncut, last_tried = 0;
  double best = 0.0;
  const auto is_good_enough = [&](std::int64_t cap) {
    if (cap == last_tried) return false;
    last_tried = cap;
    const double share =
        busy_share(part_lengths(chains, cap * kChunkGranule), num_heads, num_slots);
    if (share > best) {
      best = share;
      best_cap = cap;
    }
    return share >= kEnough;
  };

  if (is_good_enough(uncut)) return uncut * kChunkGranule;
  for (std::int64_t waves = 1, cap = uncut; cap > least; ++waves) {
    const std::int64_t slots = waves * num_slots;
    const std::int64_t low = std::max(least, ceil_div(ceil_div(work, slots), kChunkGranule));
    if (low >= cap) continue;  // the slots' share of the work is longer than that
    const std::int64_t full = smallest_cap(chains, num_heads, slots, low, cap);
    if (is_good_enough(full)) return full * kChunkGranule;
    // Some slots left over for short chains.
    const std::int64_t roomy = smallest_cap(chains, num_heads, slots - slots / 16, full, cap);
    if (is_good_enough(roomy)) return roomy * kChunkGranule;
    cap = full;
  }
  return best_cap * kChunkGranule;
}
//! [choose cap]

void add_items(SplitPlan& plan, int num_heads, const Chain& chain, const Cut& cut) {
  const int num_parts = static_cast<int>(cut.num_parts);
  const int first = plan.num_partials;
  // Heads innermost: CTAs that start together read neighbouring memory, [key, head, element].
  for (int part = 0; part < num_parts; ++part)
    for (int h = 0; h < num_heads; ++h)
      plan.items.push_back({chain.sequence, chain.row, h, static_cast<int>(cut.begin(part)),
                            static_cast<int>(cut.begin(part + 1)),
                            num_parts == 1 ? -1 : first + h * num_parts + part});
  if (num_parts == 1) return;
  for (int h = 0; h < num_heads; ++h)
    plan.merges.push_back({chain.sequence, chain.row, h, first + h * num_parts, num_parts});
  plan.num_partials += num_heads * num_parts;
}

}  // namespace

double SplitPlan::busy_share(int num_slots) const {
  std::vector<std::int64_t> lengths;
  double work = 0.0;
  for (const SplitItem& item : items) {
    lengths.push_back(item.num_keys());
    work += item.num_keys();
  }
  if (work == 0.0) return 1.0;
  return work / num_slots / static_cast<double>(finish_time(lengths, 1, num_slots));
}

SplitPlan plan_split(int num_heads, bool causal, std::span<const SequenceRows> sequences,
                     const SplitOptions& options) {
  require(num_heads > 0, "a plan needs at least one head");
  require(options.num_slots > 0, "num_slots must be positive");
  require(options.fixed_chunk >= 0, "fixed_chunk cannot be negative");
  const std::vector<Chain> chains = chains_of(sequences, causal);
  const int fixed = options.fixed_chunk;
  const std::int64_t cap = fixed > 0 ? fixed : choose_cap(chains, num_heads, options.num_slots);
  std::vector<Cut> cuts;
  std::int64_t num_items = 0;
  for (const Chain& chain : chains) {
    cuts.push_back(fixed > 0 ? cut_fixed(chain.num_keys, cap) : cut_equally(chain.num_keys, cap));
    num_items += num_heads * cuts.back().num_parts;
  }
  require(num_items <= std::numeric_limits<int>::max(),
          "more than 2^31 - 1 parts: take a longer fixed_chunk, or fewer rows at once");

  SplitPlan plan;
  plan.items.reserve(static_cast<std::size_t>(num_items));
  for (std::size_t c = 0; c < chains.size(); ++c) add_items(plan, num_heads, chains[c], cuts[c]);
  // What starts last should be short.
  std::ranges::sort(plan.items, {}, [](const SplitItem& item) {
    return std::tuple(-item.num_keys(), item.sequence, item.row, item.begin, item.head);
  });
  return plan;
}

SplitBuffers::SplitBuffers(Device& device, const SplitPlan& plan, int head_dim,
                           int heads_per_item_in)
    : items(device, std::span<const SplitItem>(plan.items)),
      merges(device, std::span<const SplitMerge>(plan.merges)),
      out(device, static_cast<std::size_t>(plan.num_partials) * heads_per_item_in * head_dim),
      lse(device, static_cast<std::size_t>(plan.num_partials) * heads_per_item_in),
      heads_per_item(heads_per_item_in) {}

SplitArrays SplitBuffers::arrays() {
  return {items.data(),
          merges.data(),
          out.data(),
          lse.data(),
          static_cast<int>(items.size()),
          static_cast<int>(merges.size()),
          heads_per_item};
}

}  // namespace kv
