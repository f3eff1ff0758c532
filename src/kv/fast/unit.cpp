#include "kv/fast/unit.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <new>
#include <span>
#include <vector>

#include "kv/fast/block_readers.hpp"
#include "kv/fast/runs.hpp"
#include "kv/fast/tile_kernels.hpp"
#include "kv/fast/tile_reader.hpp"
#include "kv/fast/unit_rows.hpp"

namespace kv::fast {

namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// Keys that all heads of a unit visit together when K and V are read where they lie (measured: 8 to
// 16 are close to each other).
constexpr int kDirectKeys = 16;

// Memory that starts at a cache line: vectors then lie within one line, not across two.
template <class T>
struct LineAllocator {
  using value_type = T;
  static constexpr std::align_val_t kLine{64};
  T* allocate(std::size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), kLine)); }
  void deallocate(T* p, std::size_t) { ::operator delete(p, kLine); }
  bool operator==(const LineAllocator&) const = default;
};
using Floats = std::vector<float, LineAllocator<float>>;

// Scratch of one thread; only ever grows.
struct Scratch {
  Floats q;             // [num_rows, head_dim]
  Floats out;           // [num_rows, head_dim] unnormalised
  Floats m, l;          // [num_rows]
  Floats scores;        // [num_rows, kTileKeys]
  Floats k_widened;     // [kTileKeys, head_dim]
  Floats k_transposed;  // [head_dim, kTileKeys]
  Floats v_widened;     // [kTileKeys, head_dim]

  void prepare(std::int64_t num_rows, int head_dim) {
    const auto grow = [](Floats& v, std::int64_t size) {
      if (static_cast<std::int64_t>(v.size()) < size) v.resize(size);
    };
    grow(q, num_rows * head_dim);
    grow(out, num_rows * head_dim);
    grow(m, num_rows);
    grow(l, num_rows);
    grow(scores, num_rows * kTileKeys);
    grow(k_widened, kTileKeys * head_dim);
    grow(k_transposed, kTileKeys * head_dim);
    grow(v_widened, kTileKeys * head_dim);
    std::fill_n(out.begin(), num_rows * head_dim, 0.0f);
    std::fill_n(m.begin(), num_rows, kMinusInfinity);
    std::fill_n(l.begin(), num_rows, 0.0f);
  }
};

// One tile for few rows: K and V are read where they lie, once. Meanwhile memory is asked for what
// comes next: the values of the same keys, then the keys of the next tile. (Behind the end of a
// span it is asked in vain; nothing is read.)
class DirectTile {
 public:
  // Scores of keys [begin, end) of the tile.
  static void scores(const Tile& tile, int begin, int end, const Rows& rows, int head_dim,
                     Scratch&) {
    for (const Piece& piece : tile.all()) {
      int j = std::max(begin, piece.first);
      const int last = std::min(end, piece.first + piece.num_keys);
      with_type(piece.dtype, [&]<class T>(const T*) {
        const auto row = [&](const std::byte* from, int key) {
          return reinterpret_cast<const T*>(from) + (key - piece.first) * piece.stride;
        };
        for (; j + 4 <= last; j += 4)
          score_rows<4, T>(
              rows.q, rows.count, head_dim,
              {row(piece.k, j), row(piece.k, j + 1), row(piece.k, j + 2), row(piece.k, j + 3)},
              {row(piece.v, j), row(piece.v, j + 1), row(piece.v, j + 2), row(piece.v, j + 3)},
              rows.scores + j);
        for (; j < last; ++j)
          score_rows<1, T>(rows.q, rows.count, head_dim, {row(piece.k, j)}, {row(piece.v, j)},
                           rows.scores + j);
      });
    }
  }

  // Values of keys [begin, end) for rows [r, r + count), all of which see them.
  static void values(const Tile& tile, int begin, int end, const Rows& rows, std::int64_t r,
                     std::int64_t count, int head_dim, Scratch&) {
    for (const Piece& piece : tile.all()) {
      const int first = std::max(begin, piece.first);
      const int last = std::min(end, piece.first + piece.num_keys);
      if (first >= last) continue;
      with_type(piece.dtype, [&]<class T>(const T*) {
        const std::int64_t key = first - piece.first;
        add_few_values<1, T>(
            count, rows.scores + r * kTileKeys + first,
            {reinterpret_cast<const T*>(piece.v) + key * piece.stride},
            {reinterpret_cast<const T*>(piece.k) + (key + tile.num_keys) * piece.stride},
            piece.stride, last - first, head_dim, rows.out + r * head_dim);
      });
    }
  }
};

// One tile for many rows: K is widened and transposed, V widened, once for all rows.
class PreparedTile {
 public:
  static void scores(const Tile& tile, int, int, const Rows& rows, int head_dim, Scratch& s) {
    for (const Piece& piece : tile.all()) {
      if (piece.first >= tile.num_keys) break;
      with_type(piece.dtype, [&]<class T>(const T*) {
        for (int j = 0; j < piece.num_keys; ++j) {
          const std::int64_t to = static_cast<std::int64_t>(piece.first + j) * head_dim;
          readers::widen_floats<T>(piece.k, j * piece.stride, head_dim, s.k_widened.data() + to);
          readers::widen_floats<T>(piece.v, j * piece.stride, head_dim, s.v_widened.data() + to);
        }
      });
    }
    simd::transpose(s.k_widened.data(), head_dim, tile.num_keys, head_dim, s.k_transposed.data(),
                    kTileKeys);
    // Columns behind num_keys hold leftovers of earlier tiles; their scores are never looked at.
    for (int j = 0; j < tile.num_keys; j += simd::kTileCols)
      simd::multiply_rows<simd::kTileVecs>(rows.count, rows.q, head_dim, s.k_transposed.data() + j,
                                           kTileKeys, head_dim, rows.scores + j, kTileKeys, false);
  }

  static void values(const Tile&, int begin, int end, const Rows& rows, std::int64_t r,
                     std::int64_t count, int head_dim, Scratch& s) {
    add_values(count, rows.scores + r * kTileKeys + begin,
               s.v_widened.data() + static_cast<std::int64_t>(begin) * head_dim, end - begin,
               head_dim, rows.out + r * head_dim);
  }
};

// Values of keys [begin, end) of the tile for all rows. Blocks of rows share the keys that all of
// them see; the few keys more that only later tokens see are added row by row. A masked V row is
// never read: 0 * NaN would be NaN.
template <class Kind>
void add_visible_values(const Tile& tile, const Visibility& visible, int begin, int end,
                        const Rows& rows, int head_dim, Scratch& s) {
  const int most = std::min(end, visible.keys(rows.count - 1));
  for (std::int64_t r = 0; r < rows.count;) {
    const int common = std::min(end, visible.keys(r));
    std::int64_t count = rows.count - r;
    if (common < most) count = std::min<std::int64_t>(count, simd::kTileRows);
    if (begin < common) Kind::values(tile, begin, common, rows, r, count, head_dim, s);
    for (std::int64_t i = r; i < r + count && common < most; ++i) {
      const int last = std::min(end, visible.keys(i)), first = std::max(begin, common);
      if (first < last) Kind::values(tile, first, last, rows, i, 1, head_dim, s);
    }
    r += count;
  }
}

// Takes in one tile of every KV head: `tiles` and `rows` [num_heads]. The keys are visited a few at
// a time, all heads of these few together: a token's heads lie side by side, and memory is fast
// when it is read from one end to the other.
template <class Kind>
void take_in(std::span<const Tile> tiles, std::span<const Rows> rows, const Visibility& visible,
             int keys_at_a_time, float scale, int head_dim, Scratch& s) {
  const int num_keys = visible.num_keys;
  for (int j = 0; j < num_keys; j += keys_at_a_time)
    for (std::size_t g = 0; g < tiles.size(); ++g)
      Kind::scores(tiles[g], j, std::min(j + keys_at_a_time, num_keys), rows[g], head_dim, s);
  for (const Rows& head : rows) softmax_rows(visible, head, scale, head_dim);
  for (int j = 0; j < num_keys; j += keys_at_a_time)
    for (std::size_t g = 0; g < tiles.size(); ++g)
      add_visible_values<Kind>(tiles[g], visible, j, std::min(j + keys_at_a_time, num_keys),
                               rows[g], head_dim, s);
}

// The keys that all rows of a unit see, as far as they fill whole tiles, from kRuns places at once.
// \return the first key not taken in
std::int64_t take_in_far(const AttentionUnit& unit, const HeadConfig& heads, float scale,
                         std::span<Tile> tiles, std::span<const Rows> rows, Scratch& s) {
  thread_local std::vector<TileReader> readers;  // [num_heads, kRuns]
  const std::int64_t seen_by_all =
      std::clamp<std::int64_t>(unit.first_token + unit.past + 1, unit.begin, unit.end);
  const std::int64_t num_tiles = (seen_by_all - unit.begin) / kTileKeys;
  const std::int64_t run = num_tiles * kRunKeys;  // keys from one place to the next
  readers.clear();
  for (int g = 0; g < unit.num_heads; ++g)
    for (std::int64_t n = 0; n < std::int64_t{kRuns}; ++n)
      readers.emplace_back(unit.spans[g], unit.begin + n * run, unit.begin + (n + 1) * run);

  const Visibility visible{unit.first_token, unit.past, unit.begin, kTileKeys, heads.group_size()};
  for (std::int64_t t = 0; t < num_tiles; ++t) {
    for (int g = 0; g < unit.num_heads; ++g) {
      tiles[g].clear();
      for (std::size_t n = 0; n < kRuns; ++n) readers[g * kRuns + n].append(kRunKeys, tiles[g]);
    }
    const DType dtype = tiles[0].pieces[0].dtype;
    const bool equal = std::ranges::all_of(tiles, [&](const Tile& tile) {
      return has_equal_runs(tile) && tile.pieces[0].dtype == dtype;
    });
    if (equal) {
      with_type(dtype, [&]<class T>(const T*) {
        take_in_runs<T>(tiles, rows, visible, scale, heads.head_dim);
      });
    } else {
      take_in<DirectTile>(tiles, rows, visible, kDirectKeys, scale, heads.head_dim, s);
    }
  }
  return unit.begin + num_tiles * kTileKeys;
}

// Puts the rows of a finished unit into the result, or among the parts when its keys were cut.
void finish(const AttentionUnit& unit, const HeadConfig& heads, AttentionParts& parts,
            const Scratch& s) {
  const int head_dim = heads.head_dim;
  for (std::int64_t r = 0; r < unit.num_rows(heads); ++r) {
    const float* sums = s.out.data() + r * head_dim;
    if (unit.part >= 0) {
      parts.m[unit.part + r] = s.m[r];
      parts.l[unit.part + r] = s.l[r];
      std::copy_n(sums, head_dim, parts.out.data() + (unit.part + r) * head_dim);
      continue;
    }
    const std::int64_t query = unit.query(r, heads);
    const bool empty = s.l[r] == 0.0f;
    const float factor = empty ? 0.0f : 1.0f / s.l[r];
    for (int d = 0; d < head_dim; ++d) unit.item->out[query * head_dim + d] = sums[d] * factor;
    if (unit.item->lse != nullptr)
      unit.item->lse[query] = empty ? kMinusInfinity : s.m[r] + std::log(s.l[r]);
  }
}

}  // namespace

void run_unit(const AttentionUnit& unit, const HeadConfig& heads, float scale,
              AttentionParts& parts) {
  thread_local Scratch s;
  thread_local std::vector<TileReader> readers;  // [num_heads]
  thread_local std::vector<Tile> tiles;          // [num_heads]
  thread_local std::vector<Rows> rows;           // [num_heads]
  const int head_dim = heads.head_dim;
  const std::int64_t per_head = unit.rows_per_head(heads);
  s.prepare(unit.num_rows(heads), head_dim);
  for (std::int64_t r = 0; r < unit.num_rows(heads); ++r) {
    const std::int64_t query = unit.query(r, heads);
    const std::int64_t t = query / heads.num_q_heads, h = query % heads.num_q_heads;
    std::copy_n(unit.item->q + t * unit.item->q_stride + h * head_dim, head_dim,
                s.q.data() + r * head_dim);
  }
  rows.clear();
  tiles.resize(unit.num_heads);
  for (int g = 0; g < unit.num_heads; ++g) {
    const std::int64_t r = g * per_head;
    rows.push_back({s.q.data() + r * head_dim, s.out.data() + r * head_dim, s.m.data() + r,
                    s.l.data() + r, s.scores.data() + r * kTileKeys, per_head});
  }
  const bool few_rows = per_head < kMinPreparedRows;
  const std::int64_t first =
      few_rows ? take_in_far(unit, heads, scale, tiles, rows, s) : unit.begin;
  readers.clear();
  for (int g = 0; g < unit.num_heads; ++g) readers.emplace_back(unit.spans[g], first, unit.end);
  for (std::int64_t key = first; key < unit.end; key += kTileKeys) {
    for (int g = 0; g < unit.num_heads; ++g) {
      tiles[g].clear();
      readers[g].append(kTileKeys, tiles[g]);
    }
    const Visibility visible{unit.first_token, unit.past, key, tiles[0].num_keys,
                             heads.group_size()};
    if (few_rows) {
      take_in<DirectTile>(tiles, rows, visible, kDirectKeys, scale, head_dim, s);
    } else {
      take_in<PreparedTile>(tiles, rows, visible, kTileKeys, scale, head_dim, s);
    }
  }
  finish(unit, heads, parts, s);
}

}  // namespace kv::fast
