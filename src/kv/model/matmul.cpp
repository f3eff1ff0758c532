#include "kv/model/matmul.hpp"

#include <algorithm>
#include <atomic>
#include <functional>
#include <vector>

#include "kv/model/dot.hpp"
#include "kv/simd/tile.hpp"
#include "kv/thread_team.hpp"

namespace kv {

namespace {

// Up to here each weight row is read once and multiplied with the rows of x in registers; beyond,
// packing panels of weights pays (measured: the two meet at about this number of rows).
constexpr std::int64_t kMaxDotRows = 8;
// Multiplications below which the team is not worth waking: a thread that the system holds up for
// longer than the whole product takes would hold up the product.
constexpr std::int64_t kMinShared = 150000;
constexpr int kDotRows = 3;  // rows of x one pass over a group of weight rows takes

// What a storage format brings: dot products of kDotWeightRows rows of weights, or of one, with
// 1..kDotRows rows of x, and plain widening.
struct Format {
  using Dot = void (*)(const DotRows& rows, const DotInput& in, std::int64_t first_x);
  using Widen = void (*)(const std::byte* row, std::int64_t first, std::int64_t count, float* out);
  Dot dot_group[kDotRows];
  Dot dot_one[kDotRows];
  Widen widen;
  bool has_offset = false;
};

template <class T>
constexpr Format floats_format() {
  constexpr int kW = kDotWeightRows;
  return {{dot_floats<T, kW, 1>, dot_floats<T, kW, 2>, dot_floats<T, kW, 3>},
          {dot_floats<T, 1, 1>, dot_floats<T, 1, 2>, dot_floats<T, 1, 3>},
          readers::widen_floats<T>,
          false};
}

template <class Reader>
constexpr Format blocks_format() {
  constexpr int kW = kDotWeightRows;
  return {{dot_blocks<Reader, kW, 1>, dot_blocks<Reader, kW, 2>, dot_blocks<Reader, kW, 3>},
          {dot_blocks<Reader, 1, 1>, dot_blocks<Reader, 1, 2>, dot_blocks<Reader, 1, 3>},
          readers::widen_blocks<Reader>,
          Reader::kHasOffset};
}

Format format_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return floats_format<float>();
    case DType::f16:
      return floats_format<f16>();
    case DType::bf16:
      return floats_format<bf16>();
    case DType::q4_0:
      return blocks_format<readers::Q4_0>();
    case DType::q4_1:
      return blocks_format<readers::Q4_1>();
    case DType::q5_0:
      return blocks_format<readers::Q5_0>();
    case DType::q5_1:
      return blocks_format<readers::Q5_1>();
    case DType::q8_0:
      return blocks_format<readers::Q8_0>();
    case DType::q4_k:
      return blocks_format<readers::Q4_K>();
    case DType::q6_k:
      return blocks_format<readers::Q6_K>();
  }
  require(false, "multiply: unknown weight format");
  return {};
}

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

void dot_range(const RowRange& range, const DotInput& in, std::int64_t num_x) {
  const WeightMatrix& w = *range.product->weight;
  const Format format = format_of(w.dtype);
  const std::int64_t out_stride = range.product->out_stride;
  const auto dot = [&](const Format::Dot* table, std::int64_t o, std::int64_t step) {
    for (std::int64_t r = 0; r < num_x; r += kDotRows) {
      const std::int64_t count = std::min<std::int64_t>(kDotRows, num_x - r);
      table[count - 1]({w.row(o), step * w.row_bytes(), range.product->out + r * out_stride + o,
                        step, out_stride},
                       in, r);
    }
  };
  // A quarter of the range lies between the rows of a group: far apart, as memory likes it.
  const std::int64_t quarter = (range.end - range.begin) / kDotWeightRows;
  for (std::int64_t o = range.begin; o < range.begin + quarter; ++o)
    dot(format.dot_group, o, quarter);
  for (std::int64_t o = range.begin + quarter * kDotWeightRows; o < range.end; ++o)
    dot(format.dot_one, o, 0);
}

// Columns of x that a panel covers at a time: the panel of weights then stays in the first-level
// cache while all rows of x pass by. Whole blocks of the format, and parts of about equal size.
std::int64_t panel_depth(std::int64_t num_cols, int block_elements) {
  constexpr std::int64_t kMaxDepth = 320;  // x 16 columns x 4 bytes: 20 KiB
  const std::int64_t num_parts = (num_cols + kMaxDepth - 1) / kMaxDepth;
  const std::int64_t depth = (num_cols + num_parts - 1) / num_parts;
  return (depth + block_elements - 1) / block_elements * block_elements;
}

// Scratch of one thread; only ever grows.
struct PanelScratch {
  std::vector<float> widened;  // [kTileCols, depth] rows of weights
  std::vector<float> panel;    // [depth, kTileCols] the same, transposed
  std::vector<float> edge;     // [num_x, kTileCols] results of a panel that is not full
};

// Rows [first, first + count) of w as a panel [depth, kTileCols]; columns from `count` on are 0.
void pack_panel(const WeightMatrix& w, const Format& format, std::int64_t first, std::int64_t count,
                std::int64_t first_col, std::int64_t depth, PanelScratch& scratch) {
  using simd::kTileCols;
  scratch.panel.resize(std::max<std::size_t>(scratch.panel.size(), depth * kTileCols));
  scratch.widened.resize(std::max<std::size_t>(scratch.widened.size(), depth * kTileCols));
  if (count < kTileCols) std::fill_n(scratch.panel.begin(), depth * kTileCols, 0.0f);
  if (w.dtype == DType::f32) {
    const float* rows = reinterpret_cast<const float*>(w.row(first)) + first_col;
    simd::transpose(rows, w.num_cols, count, depth, scratch.panel.data(), kTileCols);
    return;
  }
  for (std::int64_t i = 0; i < count; ++i)
    format.widen(w.row(first + i), first_col, depth, scratch.widened.data() + i * depth);
  simd::transpose(scratch.widened.data(), depth, count, depth, scratch.panel.data(), kTileCols);
}

void tile_range(const RowRange& range, const float* x, std::int64_t x_stride, std::int64_t num_x) {
  using simd::kTileCols;
  thread_local PanelScratch scratch;
  const WeightMatrix& w = *range.product->weight;
  const Format format = format_of(w.dtype);
  const std::int64_t max_depth = panel_depth(w.num_cols, info(w.dtype).block_elements);
  for (std::int64_t o = range.begin; o < range.end; o += kTileCols) {
    const std::int64_t count = std::min<std::int64_t>(kTileCols, range.end - o);
    float* out = range.product->out + o;
    std::int64_t out_stride = range.product->out_stride;
    if (count < kTileCols) {  // a whole panel would write beside the row
      scratch.edge.resize(std::max<std::size_t>(scratch.edge.size(), num_x * kTileCols));
      out = scratch.edge.data();
      out_stride = kTileCols;
    }
    for (std::int64_t col = 0; col < w.num_cols; col += max_depth) {
      const std::int64_t depth = std::min(max_depth, w.num_cols - col);
      pack_panel(w, format, o, count, col, depth, scratch);
      simd::multiply_rows<simd::kTileVecs>(num_x, x + col, x_stride, scratch.panel.data(),
                                           kTileCols, depth, out, out_stride, col > 0);
    }
    if (count < kTileCols)
      for (std::int64_t r = 0; r < num_x; ++r)
        std::copy_n(out + r * kTileCols, count,
                    range.product->out + r * range.product->out_stride + o);
  }
}

// Cuts the output rows of all products into ranges: several per thread, so that a thread that the
// system holds up does not hold up the others, each a multiple of kTileCols rows.
void cut_ranges(std::span<const Product> products, std::vector<RowRange>& ranges) {
  constexpr std::int64_t kRangesPerThread = 6;
  std::int64_t total = 0;
  for (const Product& p : products) total += p.weight->num_rows;
  const std::int64_t wanted = total / (num_threads() * kRangesPerThread) + 1;
  const std::int64_t step = (wanted + simd::kTileCols - 1) / simd::kTileCols * simd::kTileCols;
  ranges.clear();
  for (const Product& p : products)
    for (std::int64_t begin = 0; begin < p.weight->num_rows; begin += step)
      ranges.push_back({&p, begin, std::min(begin + step, p.weight->num_rows)});
}

}  // namespace

void multiply(std::span<const Product> products, const float* x, std::int64_t x_stride,
              std::int64_t num_x) {
  require(num_x >= 0, "multiply: num_x must not be negative");
  if (products.empty() || num_x == 0) return;
  DotInput in{x, x_stride, products[0].weight->num_cols, nullptr};
  bool has_offset = false;
  for (const Product& p : products) {
    require(p.weight->num_cols == in.num_cols, "the weights of a group must share their input");
    has_offset = has_offset || format_of(p.weight->dtype).has_offset;
  }
  thread_local std::vector<RowRange> ranges;
  thread_local std::vector<float> sums;
  cut_ranges(products, ranges);
  const bool few_rows = num_x <= kMaxDotRows;
  if (few_rows && has_offset) sum_blocks(in, num_x, sums);

  // Every output element is computed the same way whichever thread takes it.
  std::atomic<std::size_t> next = 0;
  const auto work = [&, &shared = ranges](int, int) {
    for (std::size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < shared.size();) {
      if (few_rows) {
        dot_range(shared[i], in, num_x);
      } else {
        tile_range(shared[i], x, x_stride, num_x);
      }
    }
  };
  std::int64_t multiplications = 0;
  for (const Product& p : products) multiplications += num_x * p.weight->num_rows * in.num_cols;
  if (multiplications < kMinShared) {
    work(0, 1);
  } else {
    parallel(std::cref(work));
  }
}

}  // namespace kv
