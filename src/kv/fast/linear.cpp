#include "kv/fast/linear.hpp"

#include <algorithm>
#include <atomic>
#include <functional>
#include <limits>
#include <vector>

#include "kv/fast/format.hpp"
#include "kv/fast/thread_team.hpp"

namespace kv::fast {

namespace {

// Up to here dot products of a few rows of weights pay; beyond, panels of them for Eigen's product.
// Measured, one thread of a Xeon with AVX-512, BF16 weights [3072, 576], microseconds of dots and
// of panels: 1 row of x 127 and 328, 4 rows 157 and 650, 9 rows 350 and 894, 32 rows 1302 and 1532,
// 48 rows both about 2050. Q8_0: 1 row 109 and 323, 9 rows 455 and 886, 48 rows 1885 and 2004.
// AVX2: 1 row 118 and 355, 48 rows 3223 and 3868.
constexpr std::int64_t kMaxDotRows = 48;
// Weight rows of one panel. Eigen arranges x anew for every panel, so more are better, as long as
// the widened rows stay in the second-level cache.
constexpr std::int64_t kMinPanelRows = 64, kMaxPanelRows = 192;
// Multiplications below which the team is not worth waking: a thread that the system holds up for
// longer than the whole product takes would hold up the product.
constexpr std::int64_t kMinShared = 150000;

// Rows [begin, end) of one weight matrix.
struct RowRange {
  const Product* product;
  std::int64_t begin;
  std::int64_t end;
};

// The sums of 32 neighbours of every row of x, for formats with an offset.
void sum_blocks(DotInput& in, std::int64_t num_x, std::vector<float>& sums) {
  const std::int64_t num_blocks = in.num_cols / readers::kBlock;
  sums.resize(num_x * num_blocks);
  for (std::int64_t r = 0; r < num_x; ++r) {
    for (std::int64_t b = 0; b < num_blocks; ++b) {
      const float* x = in.x + r * in.x_stride + b * readers::kBlock;
      simd::Vec sum = {};
      for (int i = 0; i < readers::kBlock; i += simd::kWidth) sum += simd::load(x + i);
      sums[r * num_blocks + b] = simd::sum(sum);
    }
  }
  in.block_sums = sums.data();
}

// Calls body(o, step, num_weights) for groups of kDotWeightRows weight rows o, o + step, ... and
// for the single rows that are left. A quarter of the range lies between the rows of a group: far
// apart, as memory likes it.
template <class Body>
void for_groups(const RowRange& range, Body&& body) {
  const std::int64_t quarter = (range.end - range.begin) / kDotWeightRows;
  for (std::int64_t o = range.begin; o < range.begin + quarter; ++o)
    body(o, quarter, kDotWeightRows);
  for (std::int64_t o = range.begin + quarter * kDotWeightRows; o < range.end; ++o) body(o, 0, 1);
}

// All rows of x with one group of weight rows, in as few passes as there can be of about equal
// size.
void dot_passes(const std::array<Dot, kDotRows>& dots, const DotRows& rows, const DotInput& in,
                std::int64_t num_x) {
  const std::int64_t num_passes = (num_x + kDotRows - 1) / kDotRows;
  for (std::int64_t pass = 0; pass < num_passes; ++pass) {
    const std::int64_t begin = num_x * pass / num_passes;
    const std::int64_t end = num_x * (pass + 1) / num_passes;
    DotRows part = rows;
    part.out += begin * rows.out_stride;
    dots[end - begin - 1](part, in, begin);
  }
}

// Few rows of x. Each weight is widened in a register and meets them there. When quantised rows
// would take several passes, they are widened once, into the first-level cache.
void dot_range(const RowRange& range, const DotInput& in, std::int64_t num_x) {
  thread_local std::vector<float> wide;  // [kDotWeightRows, num_cols]
  const WeightMatrix& w = *range.product->weight;
  const bool widen_first = info(w.dtype).block_elements > 1 && num_x > kDotRows;
  const Format own = format_of(w.dtype), used = widen_first ? format_of(DType::f32) : own;
  RowMajor& y = *range.product->y;
  wide.resize(kDotWeightRows * w.num_cols);
  for_groups(range, [&](std::int64_t o, std::int64_t step, int num_weights) {
    DotRows rows{w.row(o), step * w.row_bytes(), &y(0, o), step, y.outerStride()};
    if (widen_first) {
      for (int i = 0; i < num_weights; ++i)
        own.widen(w.row(o + i * step), 0, w.num_cols, wide.data() + i * w.num_cols);
      rows.row = reinterpret_cast<const std::byte*>(wide.data());
      rows.row_stride = w.num_cols * std::int64_t{sizeof(float)};
    }
    dot_passes(num_weights == 1 ? used.dot_one : used.dot_group, rows, in, num_x);
  });
}

// Rows of weights, widened to fp32 unless they are, through Eigen's product.
void panel_range(const RowRange& range, const RowMajor& x) {
  thread_local std::vector<float> panel;  // only ever grows
  const WeightMatrix& w = *range.product->weight;
  const std::int64_t num_rows = range.end - range.begin, num_cols = w.num_cols;
  const float* rows = reinterpret_cast<const float*>(w.row(range.begin));
  if (w.dtype != DType::f32) {
    panel.resize(std::max<std::size_t>(panel.size(), num_rows * num_cols));
    const Format format = format_of(w.dtype);
    for (std::int64_t i = 0; i < num_rows; ++i)
      format.widen(w.row(range.begin + i), 0, num_cols, panel.data() + i * num_cols);
    rows = panel.data();
  }
  const Eigen::Map<const RowMajor> weights(rows, num_rows, num_cols);
  range.product->y->middleCols(range.begin, num_rows).noalias() = x * weights.transpose();
}

// Cuts the output rows of all products into ranges of at most `step` rows.
void cut_ranges(std::span<const Product> products, std::int64_t step,
                std::vector<RowRange>& ranges) {
  ranges.clear();
  for (const Product& p : products)
    for (std::int64_t begin = 0; begin < p.weight->num_rows; begin += step)
      ranges.push_back({&p, begin, std::min(begin + step, p.weight->num_rows)});
}

// Decode: several ranges per thread, so that a thread that the system holds up does not hold up the
// others.
std::int64_t dot_step(std::span<const Product> products) {
  constexpr std::int64_t kRangesPerThread = 6;
  std::int64_t total = 0;
  for (const Product& p : products) total += p.weight->num_rows;
  const std::int64_t wanted = total / (num_threads() * kRangesPerThread) + 1;
  return (wanted + 31) / 32 * 32;
}

// Prefill: one panel per range, as large as leaves no thread without work for long.
std::int64_t panel_step(std::span<const Product> products) {
  // Eigen arranges x anew for every panel, which takes about as long as so many rows.
  constexpr std::int64_t kPerPanel = 8;
  std::int64_t best_step = kMaxPanelRows, best_cost = std::numeric_limits<std::int64_t>::max();
  for (std::int64_t step = kMaxPanelRows; step >= kMinPanelRows; step -= 16) {
    std::int64_t num_panels = 0;
    for (const Product& p : products) num_panels += (p.weight->num_rows + step - 1) / step;
    const std::int64_t rounds = (num_panels + num_threads() - 1) / num_threads();
    const std::int64_t cost = rounds * (step + kPerPanel);
    if (cost < best_cost) best_step = step, best_cost = cost;
  }
  return best_step;
}

}  // namespace

void linear(std::span<const Product> group, const RowMajor& x) {
  check_shapes(group, x);
  if (group.empty() || x.rows() == 0) return;
  DotInput in{x.data(), x.outerStride(), x.cols(), nullptr};
  bool has_offset = false;
  std::int64_t multiplications = 0;
  for (const Product& p : group) {
    has_offset = has_offset || format_of(p.weight->dtype).has_offset;
    multiplications += x.rows() * p.weight->num_rows * x.cols();
  }
  thread_local std::vector<RowRange> ranges;
  thread_local std::vector<float> sums;
  const bool few_rows = x.rows() <= kMaxDotRows;
  cut_ranges(group, few_rows ? dot_step(group) : panel_step(group), ranges);
  if (x.rows() <= kDotRows && has_offset) sum_blocks(in, x.rows(), sums);

  // Every output element is computed the same way whichever thread takes it.
  std::atomic<std::size_t> next = 0;
  const auto work = [&, &shared = ranges](int, int) {
    for (std::size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < shared.size();) {
      if (few_rows) {
        dot_range(shared[i], in, x.rows());
      } else {
        panel_range(shared[i], x);
      }
    }
  };
  if (multiplications < kMinShared) {
    work(0, 1);
  } else {
    parallel(std::cref(work));
  }
}

}  // namespace kv::fast
