#include "kv/attention/unit.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "kv/attention/tile_kernels.hpp"
#include "kv/model/block_readers.hpp"

namespace kv {

namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// A piece of a tile that lies in one span.
struct Piece {
  const std::byte* k;
  const std::byte* v;
  std::int64_t stride;
  DType dtype;
  int first;  // key of the tile
  int num_keys;
};

// Scratch of one thread; only ever grows.
struct Scratch {
  std::vector<float> q;             // [num_rows, head_dim]
  std::vector<float> out;           // [num_rows, head_dim] unnormalised
  std::vector<float> m, l;          // [num_rows]
  std::vector<float> scores;        // [rows_per_head, kTileKeys]
  std::vector<float> k_widened;     // [kTileKeys, head_dim]
  std::vector<float> k_transposed;  // [head_dim, kTileKeys]
  std::vector<float> v_widened;     // [kTileKeys, head_dim]

  void prepare(std::int64_t num_rows, std::int64_t rows_per_head, int head_dim) {
    const auto grow = [](std::vector<float>& v, std::int64_t size) {
      if (static_cast<std::int64_t>(v.size()) < size) v.resize(size);
    };
    grow(q, num_rows * head_dim);
    grow(out, num_rows * head_dim);
    grow(m, num_rows);
    grow(l, num_rows);
    grow(scores, rows_per_head * kTileKeys);
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
  std::int64_t count;
};

// Calls `body` with a null pointer of the span's element type.
template <class Body>
void with_type(DType dtype, Body&& body) {
  if (dtype == DType::f32) body(static_cast<const float*>(nullptr));
  if (dtype == DType::f16) body(static_cast<const f16*>(nullptr));
  if (dtype == DType::bf16) body(static_cast<const bf16*>(nullptr));
}

// The keys of one tile, where they lie.
struct Tile {
  std::array<Piece, kTileKeys> pieces;
  int num_pieces = 0;
  int num_keys = 0;

  std::span<const Piece> all() const {
    return {pieces.data(), static_cast<std::size_t>(num_pieces)};
  }
};

// Walks the spans of one KV head tile by tile.
class TileReader {
 public:
  TileReader(const std::vector<KvSpan>& spans, std::int64_t begin, std::int64_t end)
      : spans_(&spans), row_(begin), keys_left_(end - begin) {
    while (keys_left_ > 0 && row_ >= (*spans_)[index_].num_rows)
      row_ -= (*spans_)[index_++].num_rows;
  }

  // The next tile; without keys when there are no more.
  void next(Tile& tile) {
    tile.num_keys = static_cast<int>(std::min<std::int64_t>(kTileKeys, keys_left_));
    keys_left_ -= tile.num_keys;
    tile.num_pieces = 0;
    for (int first = 0; first < tile.num_keys;) {
      const KvSpan& span = (*spans_)[index_];
      const int take =
          static_cast<int>(std::min<std::int64_t>(tile.num_keys - first, span.num_rows - row_));
      if (take > 0) {
        const std::int64_t offset = row_ * span.row_stride * info(span.dtype).block_bytes;
        tile.pieces[tile.num_pieces++] = {span.k + offset, span.v + offset, span.row_stride,
                                          span.dtype,      first,           take};
        first += take;
        row_ += take;
      }
      if (row_ == span.num_rows) {
        ++index_;
        row_ = 0;
      }
    }
  }

 private:
  const std::vector<KvSpan>* spans_;
  std::size_t index_ = 0;
  std::int64_t row_;
  std::int64_t keys_left_;
};

// Asks for K or V of keys [begin, end) of a tile. The rows of one head are too short and too far
// apart for the processor to guess the next one: without this, decode ran at a third of the speed
// of memory.
void prefetch(const Tile& tile, const std::byte* Piece::*rows, int begin, int end, int head_dim) {
  constexpr std::int64_t kLine = 64;
  for (const Piece& piece : tile.all()) {
    const std::int64_t size = info(piece.dtype).block_bytes;
    const int last = std::min(end, piece.first + piece.num_keys);
    for (int j = std::max(begin, piece.first); j < last; ++j) {
      const std::byte* row = piece.*rows + (j - piece.first) * piece.stride * size;
      for (std::int64_t at = 0; at < head_dim * size; at += kLine) __builtin_prefetch(row + at);
    }
  }
}

// One tile for few rows: K and V are read where they lie, once. While a few keys are worked on, the
// same keys of the next tile are asked for.
class DirectTile {
 public:
  static constexpr int kStep = 16;

  static void scores(const Tile& tile, const Tile& next, const Rows& rows, int head_dim,
                     Scratch& s) {
    for (const Piece& piece : tile.all()) {
      for (int j = 0; j < piece.num_keys; j += kStep) {
        const int count = std::min(kStep, piece.num_keys - j);
        prefetch(next, &Piece::k, piece.first + j, piece.first + j + count, head_dim);
        with_type(piece.dtype, [&]<class T>(const T*) {
          score_rows(rows.q, rows.count, head_dim,
                     reinterpret_cast<const T*>(piece.k) + j * piece.stride, piece.stride, count,
                     s.scores.data() + piece.first + j);
        });
      }
    }
  }

  // Rows [r, r + count), of which all see keys [begin, end) of the tile.
  static void values(const Tile& tile, const Tile& next, const Rows& rows, std::int64_t r,
                     std::int64_t count, int begin, int end, int head_dim, Scratch& s) {
    for (const Piece& piece : tile.all()) {
      const int last = std::min(end, piece.first + piece.num_keys);
      for (int j = std::max(begin, piece.first); j < last; j += kStep) {
        const int num_keys = std::min(kStep, last - j);
        if (r == 0) prefetch(next, &Piece::v, j, j + num_keys, head_dim);
        with_type(piece.dtype, [&]<class T>(const T*) {
          add_values(count, s.scores.data() + r * kTileKeys + j,
                     reinterpret_cast<const T*>(piece.v) + (j - piece.first) * piece.stride,
                     piece.stride, num_keys, head_dim, rows.out + r * head_dim, head_dim);
        });
      }
    }
  }
};

// One tile for many rows: K is widened and transposed, V widened, once for all rows.
class PreparedTile {
 public:
  static void scores(const Tile& tile, const Tile&, const Rows& rows, int head_dim, Scratch& s) {
    const int num_keys = tile.num_keys;
    for (const Piece& piece : tile.all()) {
      with_type(piece.dtype, [&]<class T>(const T*) {
        for (int j = 0; j < piece.num_keys; ++j) {
          const std::int64_t to = static_cast<std::int64_t>(piece.first + j) * head_dim;
          readers::widen_floats<T>(piece.k, j * piece.stride, head_dim, s.k_widened.data() + to);
          readers::widen_floats<T>(piece.v, j * piece.stride, head_dim, s.v_widened.data() + to);
        }
      });
    }
    simd::transpose(s.k_widened.data(), head_dim, num_keys, head_dim, s.k_transposed.data(),
                    kTileKeys);
    // Columns behind num_keys hold leftovers of earlier tiles; their scores are never looked at.
    for (int j = 0; j < num_keys; j += simd::kTileCols)
      simd::multiply_rows<simd::kTileVecs>(rows.count, rows.q, head_dim, s.k_transposed.data() + j,
                                           kTileKeys, head_dim, s.scores.data() + j, kTileKeys,
                                           false);
  }

  static void values(const Tile&, const Tile&, const Rows& rows, std::int64_t r, std::int64_t count,
                     int begin, int end, int head_dim, Scratch& s) {
    add_values(count, s.scores.data() + r * kTileKeys + begin,
               s.v_widened.data() + static_cast<std::int64_t>(begin) * head_dim, head_dim,
               end - begin, head_dim, rows.out + r * head_dim, head_dim);
  }
};

// Takes in one tile; `first_key` is its first key.
template <class Kind>
void take_in(const AttentionUnit& unit, const HeadConfig& heads, float scale, const Tile& tile,
             const Tile& next, std::int64_t first_key, const Rows& rows, Scratch& s) {
  const int head_dim = heads.head_dim;
  const int group = heads.group_size();
  // Token t sees keys j <= t + past, so later tokens see at least what earlier ones see.
  const auto visible = [&](std::int64_t r) {
    const std::int64_t t = unit.first_token + r / group;
    return static_cast<int>(
        std::clamp<std::int64_t>(t + unit.past + 1 - first_key, 0, tile.num_keys));
  };
  Kind::scores(tile, next, rows, head_dim, s);
  for (std::int64_t r = 0; r < rows.count; ++r) {
    const float rescale =
        softmax_tile(s.scores.data() + r * kTileKeys, visible(r), scale, rows.m[r], rows.l[r]);
    if (rescale == 1.0f) continue;
    float* out = rows.out + r * head_dim;
    for (int d = 0; d < head_dim; ++d) out[d] *= rescale;
  }
  // Blocks of rows share the keys that all of them see; the few keys more that only later tokens
  // see are added row by row. A masked V row is never read: 0 * NaN would be NaN.
  for (std::int64_t r = 0; r < rows.count;) {
    const int common = visible(r);
    std::int64_t count = rows.count - r;
    if (visible(rows.count - 1) != common) count = std::min<std::int64_t>(count, simd::kTileRows);
    Kind::values(tile, next, rows, r, count, 0, common, head_dim, s);
    for (std::int64_t i = r; i < r + count; ++i)
      if (visible(i) > common)
        Kind::values(tile, next, rows, i, 1, common, visible(i), head_dim, s);
    r += count;
  }
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
  const int head_dim = heads.head_dim;
  const std::int64_t per_head = unit.rows_per_head(heads);
  s.prepare(unit.num_rows(heads), per_head, head_dim);
  for (std::int64_t r = 0; r < unit.num_rows(heads); ++r) {
    const std::int64_t query = unit.query(r, heads);
    const std::int64_t t = query / heads.num_q_heads, h = query % heads.num_q_heads;
    std::copy_n(unit.item->q + t * unit.item->q_stride + h * head_dim, head_dim,
                s.q.data() + r * head_dim);
  }
  readers.clear();
  for (int g = 0; g < unit.num_heads; ++g)
    readers.emplace_back(unit.spans[g], unit.begin, unit.end);

  // Tile by tile, and within a tile head by head: a token's heads lie side by side in memory.
  Tile tiles[2];  // the current one and, known in advance, the next
  if (unit.begin < unit.end) readers[0].next(tiles[0]);
  int current = 0;
  for (std::int64_t key = unit.begin; key < unit.end; key += kTileKeys) {
    for (int g = 0; g < unit.num_heads; ++g, current ^= 1) {
      const Tile &tile = tiles[current], &next = tiles[current ^ 1];
      readers[(g + 1) % unit.num_heads].next(tiles[current ^ 1]);
      const std::int64_t r = g * per_head;
      const Rows rows{s.q.data() + r * head_dim, s.out.data() + r * head_dim, s.m.data() + r,
                      s.l.data() + r, per_head};
      if (per_head < kMinPreparedRows) {
        take_in<DirectTile>(unit, heads, scale, tile, next, key, rows, s);
      } else {
        take_in<PreparedTile>(unit, heads, scale, tile, next, key, rows, s);
      }
    }
  }
  finish(unit, heads, parts, s);
}

}  // namespace kv
