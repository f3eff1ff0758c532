#include "kv/fast/attend.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "kv/attention/causal.hpp"
#include "kv/fast/thread_team.hpp"
#include "kv/fast/unit.hpp"

namespace kv::fast {

namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// Query rows of one unit: with tiles of 64 keys and heads of 64, queries, scores, results and the
// tile itself fit the second-level cache, and a tile is prepared once for all of these rows.
constexpr std::int64_t kUnitRows = 96;
// Sequences are cut at multiples of this: whole tiles, and parts worth merging.
constexpr std::int64_t kPartStep = 64;
// Units per thread to aim for: a thread that the system holds up delays the others by less.
constexpr std::int64_t kUnitsPerThread = 4;
// Multiplications below which waking the team costs more than it saves (about 5 microseconds).
constexpr std::int64_t kMinShared = 60000;

// Units that are the parts of the same rows.
struct Merge {
  AttentionUnit first;     // the unit of the first part
  std::int64_t num_parts;  // their rows follow each other in AttentionParts
};

// Everything one call has to do. The lists keep their memory between calls.
struct Plan {
  std::vector<std::vector<KvSpan>> spans;  // [num_items, num_kv_heads]
  std::vector<AttentionUnit> units;
  std::vector<Merge> merges;
  AttentionParts parts;
  std::int64_t num_part_rows = 0;
  std::int64_t cost = 0;  // rows x keys, over all units
};

std::int64_t kv_length(const std::vector<KvSpan>& spans) {
  std::int64_t length = 0;
  for (const KvSpan& span : spans) {
    require(span.dtype == DType::f32 || span.dtype == DType::f16 || span.dtype == DType::bf16,
            "attend: spans hold fp32, fp16 or bf16");
    length += span.num_rows;
  }
  return length;
}

// Tokens of one unit, so that it has about kUnitRows rows.
std::int64_t unit_tokens(const HeadConfig& heads) {
  return std::max<std::int64_t>(1, kUnitRows / heads.group_size());
}

// Calls body(unit) for every block of tokens of every item, longest first, its keys not yet cut.
//
// Few rows per head (decode) wait for memory: one unit then takes all KV heads, because a token's
// heads lie side by side and every fetched line is used. Many rows compute: a head each.
template <class Body>
void for_blocks(std::span<const AttentionItem> items, const HeadConfig& heads, const Plan& plan,
                Body&& body) {
  const std::int64_t tokens = unit_tokens(heads);
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::vector<KvSpan>* spans = &plan.spans[i * heads.num_kv_heads];
    const std::int64_t kv_len = kv_length(spans[0]);
    const std::int64_t past = kv_len - items[i].q_len;
    const std::int64_t num_blocks = (items[i].q_len + tokens - 1) / tokens;
    for (std::int64_t block = num_blocks - 1; block >= 0; --block) {
      const std::int64_t first = block * tokens;
      const std::int64_t count = std::min(tokens, items[i].q_len - first);
      const std::int64_t end = num_visible_keys(first + count - 1, items[i].q_len, kv_len);
      const bool few_rows = count * heads.group_size() < kMinPreparedRows;
      const int num_heads = few_rows ? heads.num_kv_heads : 1;
      for (int g = 0; g < heads.num_kv_heads; g += num_heads)
        body(AttentionUnit{&items[i], spans + g, g, num_heads, first, count, past, 0, end, -1});
    }
  }
}

// Adds a unit to the plan, its keys cut into `num_parts` parts of whole tiles.
void add_unit(const AttentionUnit& unit, std::int64_t num_parts, std::int64_t rows, Plan& plan) {
  const std::int64_t keys = unit.end - unit.begin;
  const std::int64_t step =
      ((keys + num_parts - 1) / num_parts + kPartStep - 1) / kPartStep * kPartStep;
  if (num_parts == 1 || step >= keys) {
    plan.units.push_back(unit);
    return;
  }
  plan.merges.push_back({unit, (keys + step - 1) / step});
  plan.merges.back().first.part = plan.num_part_rows;
  for (std::int64_t begin = 0; begin < keys; begin += step) {
    AttentionUnit part = unit;
    part.begin = begin;
    part.end = std::min(begin + step, keys);
    part.part = plan.num_part_rows;
    plan.num_part_rows += rows;
    plan.units.push_back(part);
  }
}

// Depends on nothing but the shapes and the number of threads, so results repeat exactly.
void make_plan(std::span<const AttentionItem> items, const HeadConfig& heads, int layer,
               Plan& plan) {
  plan.spans.clear();
  plan.units.clear();
  plan.merges.clear();
  plan.num_part_rows = 0;
  plan.cost = 0;
  for (const AttentionItem& item : items)
    for (int g = 0; g < heads.num_kv_heads; ++g) plan.spans.push_back(item.state->spans(layer, g));

  // Rows and the tile's own reading both cost time; a row costs about as much as a sixth of that.
  const auto cost_of = [&](const AttentionUnit& unit) {
    return unit.num_heads * (unit.rows_per_head(heads) + 6) * (unit.end - unit.begin);
  };
  for_blocks(items, heads, plan, [&](const AttentionUnit& unit) { plan.cost += cost_of(unit); });
  const int threads = num_threads();
  const std::int64_t wanted = plan.cost / (threads * kUnitsPerThread) + 1;
  for_blocks(items, heads, plan, [&](const AttentionUnit& unit) {
    const std::int64_t num_parts = threads == 1 ? 1 : (cost_of(unit) + wanted - 1) / wanted;
    add_unit(unit, std::max<std::int64_t>(1, num_parts), unit.num_rows(heads), plan);
  });

  const auto grow = [](std::vector<float>& v, std::int64_t size) {
    if (static_cast<std::int64_t>(v.size()) < size) v.resize(size);
  };
  grow(plan.parts.m, plan.num_part_rows);
  grow(plan.parts.l, plan.num_part_rows);
  grow(plan.parts.out, plan.num_part_rows * heads.head_dim);
}

// out = sum_p exp(m_p - m) out_p / sum_p exp(m_p - m) l_p, with m the largest m_p.
void merge_row(const Merge& merge, std::int64_t row, const HeadConfig& heads,
               const AttentionParts& parts) {
  const AttentionUnit& unit = merge.first;
  const std::int64_t rows = unit.num_rows(heads), query = unit.query(row, heads);
  float* out = unit.item->out + query * heads.head_dim;
  float m = kMinusInfinity;
  for (std::int64_t p = 0; p < merge.num_parts; ++p)
    m = std::max(m, parts.m[unit.part + p * rows + row]);
  float l = 0.0f;
  std::fill_n(out, heads.head_dim, 0.0f);
  for (std::int64_t p = 0; p < merge.num_parts; ++p) {
    const std::int64_t part = unit.part + p * rows + row;
    if (parts.l[part] == 0.0f) continue;  // the empty part is neutral
    const float factor = std::exp(parts.m[part] - m);
    l += factor * parts.l[part];
    const float* part_out = parts.out.data() + part * heads.head_dim;
    for (int d = 0; d < heads.head_dim; ++d) out[d] += factor * part_out[d];
  }
  const bool empty = l == 0.0f;
  for (int d = 0; d < heads.head_dim; ++d) out[d] = empty ? 0.0f : out[d] / l;
  if (unit.item->lse != nullptr) unit.item->lse[query] = empty ? kMinusInfinity : m + std::log(l);
}

}  // namespace

void attend(std::span<const AttentionItem> items, const HeadConfig& heads, int layer, float scale) {
  check_items(items, heads);
  thread_local Plan own_plan;
  Plan& plan = own_plan;  // the workers must see the caller's, not their own
  make_plan(items, heads, layer, plan);

  std::atomic<std::size_t> next = 0;
  const auto work = [&](int, int) {
    for (std::size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < plan.units.size();)
      run_unit(plan.units[i], heads, scale, plan.parts);
  };
  if (plan.cost * heads.head_dim < kMinShared) {
    work(0, 1);
  } else {
    parallel(std::cref(work));
  }
  for (const Merge& merge : plan.merges) {
    for (std::int64_t r = 0; r < merge.first.num_rows(heads); ++r)
      merge_row(merge, r, heads, plan.parts);
  }
}

}  // namespace kv::fast
