#include "kv/attention/unit.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <new>
#include <span>
#include <vector>

#include "kv/attention/tile_kernels.hpp"
#include "kv/attention/tile_reader.hpp"
#include "kv/model/block_readers.hpp"

namespace kv {

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

// The query rows of one KV head, and where their results gather.
struct Rows {
  const float* q;  // [count, head_dim]
  float* out;      // [count, head_dim]
  float* m;        // [count]
  float* l;        // [count]
  float* scores;   // [count, kTileKeys]
  std::int64_t count;
};

// Calls `body` with a null pointer of the span's element type.
template <class Body>
void with_type(DType dtype, Body&& body) {
  if (dtype == DType::f32) body(static_cast<const float*>(nullptr));
  if (dtype == DType::f16) body(static_cast<const f16*>(nullptr));
  if (dtype == DType::bf16) body(static_cast<const bf16*>(nullptr));
}

// One tile for few rows: K and V are read where they lie, once.
class DirectTile {
 public:
  // Scores of keys [begin, end) of the tile. What is read next is asked for meanwhile: some keys
  // ahead in K, and towards the end the first rows of V.
  static void scores(const Tile& tile, int begin, int end, const Rows& rows, int head_dim,
                     Scratch&) {
    for (const Piece& piece : tile.all()) {
      const int first = std::max(begin, piece.first);
      const int last = std::min(end, piece.first + piece.num_keys);
      if (first >= last) continue;
      const std::byte* ahead = first + kAheadKeys < tile.num_keys
                                   ? tile.row(&Piece::k, first + kAheadKeys)
                                   : tile.row(&Piece::v, first + kAheadKeys - tile.num_keys);
      with_type(piece.dtype, [&]<class T>(const T*) {
        score_rows(rows.q, rows.count, head_dim,
                   reinterpret_cast<const T*>(piece.k) + (first - piece.first) * piece.stride,
                   piece.stride, ahead, last - first, rows.scores + first);
      });
    }
  }

  // Values of keys [begin, end) for rows [r, r + count), all of which see them. Ahead lie more rows
  // of V and then the next tile's K.
  static void values(const Tile& tile, int begin, int end, const Rows& rows, std::int64_t r,
                     std::int64_t count, int head_dim, Scratch&) {
    for (const Piece& piece : tile.all()) {
      const int first = std::max(begin, piece.first);
      const int last = std::min(end, piece.first + piece.num_keys);
      if (first >= last) continue;
      const std::byte* ahead = first + kAheadKeys < tile.num_keys
                                   ? tile.row(&Piece::v, first + kAheadKeys)
                                   : tile.row(&Piece::k, first + kAheadKeys);
      if (r > 0) ahead = nullptr;  // the first rows have asked already
      with_type(piece.dtype, [&]<class T>(const T*) {
        add_few_values(count, rows.scores + r * kTileKeys + first,
                       reinterpret_cast<const T*>(piece.v) + (first - piece.first) * piece.stride,
                       piece.stride, ahead, last - first, head_dim, rows.out + r * head_dim);
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

// Which keys of the current tile the rows of a unit see. Token t sees keys j <= t + past, so a
// later row sees at least what an earlier one sees.
struct Visibility {
  std::int64_t first_token;
  std::int64_t past;
  std::int64_t first_key;  // of the tile
  int num_keys;            // of the tile
  int group;

  int keys(std::int64_t r) const {
    const std::int64_t t = first_token + r / group;
    return static_cast<int>(std::clamp<std::int64_t>(t + past + 1 - first_key, 0, num_keys));
  }
};

void softmax_rows(const Visibility& visible, const Rows& rows, float scale, int head_dim) {
  for (std::int64_t r = 0; r < rows.count; ++r) {
    const float rescale =
        softmax_tile(rows.scores + r * kTileKeys, visible.keys(r), scale, rows.m[r], rows.l[r]);
    if (rescale == 1.0f) continue;
    float* out = rows.out + r * head_dim;
    for (int d = 0; d < head_dim; ++d) out[d] *= rescale;
  }
}

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
  readers.clear();
  rows.clear();
  tiles.resize(unit.num_heads);
  for (int g = 0; g < unit.num_heads; ++g) {
    const std::int64_t r = g * per_head;
    readers.emplace_back(unit.spans[g], unit.begin, unit.end);
    rows.push_back({s.q.data() + r * head_dim, s.out.data() + r * head_dim, s.m.data() + r,
                    s.l.data() + r, s.scores.data() + r * kTileKeys, per_head});
  }
  for (std::int64_t key = unit.begin; key < unit.end; key += kTileKeys) {
    for (int g = 0; g < unit.num_heads; ++g) readers[g].next(tiles[g]);
    const Visibility visible{unit.first_token, unit.past, key, tiles[0].num_keys,
                             heads.group_size()};
    if (per_head < kMinPreparedRows) {
      take_in<DirectTile>(tiles, rows, visible, kDirectKeys, scale, head_dim, s);
    } else {
      take_in<PreparedTile>(tiles, rows, visible, kTileKeys, scale, head_dim, s);
    }
  }
  finish(unit, heads, parts, s);
}

}  // namespace kv
