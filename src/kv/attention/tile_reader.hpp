// Where the keys of a tile lie, however the spans cut it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kv/attention/tile_kernels.hpp"
#include "kv/cache/sequence_state.hpp"

namespace kv {

/// Keys that memory is asked for in advance (measured: 16 to 32 are close to each other).
inline constexpr int kAheadKeys = 16;

/// A piece of a tile that lies in one span.
struct Piece {
  const std::byte* k;
  const std::byte* v;
  std::int64_t stride;
  DType dtype;
  int first;  ///< key of the tile
  int num_keys;
};

/// The keys of one tile, where they lie, and behind them those that will be asked for in advance.
struct Tile {
  std::array<Piece, kTileKeys + kAheadKeys> pieces;
  int num_pieces = 0;
  int num_keys = 0;  ///< without those behind

  /// Every piece, those behind num_keys included.
  std::span<const Piece> all() const {
    return {pieces.data(), static_cast<std::size_t>(num_pieces)};
  }

  /// Row of K or V of one key, also behind num_keys; null when it is not known.
  const std::byte* row(const std::byte* Piece::*rows, int key) const {
    for (const Piece& piece : all())
      if (key >= piece.first && key < piece.first + piece.num_keys)
        return piece.*rows + (key - piece.first) * piece.stride * info(piece.dtype).block_bytes;
    return nullptr;
  }
};

/// Walks the spans of one KV head tile by tile.
class TileReader {
 public:
  /// \param spans rows of one KV head; must outlive the reader
  /// \param begin first key
  /// \param end   behind the last key
  TileReader(const std::vector<KvSpan>& spans, std::int64_t begin, std::int64_t end)
      : spans_(&spans), row_(begin), keys_left_(end - begin) {
    while (keys_left_ > 0 && row_ >= (*spans_)[index_].num_rows)
      row_ -= (*spans_)[index_++].num_rows;
  }

  /// The next tile; without keys when there are no more.
  void next(Tile& tile) {
    tile.num_pieces = 0;
    tile.num_keys = static_cast<int>(std::min<std::int64_t>(kTileKeys, keys_left_));
    add_pieces(0, tile.num_keys, tile);
    TileReader behind = *this;
    behind.add_pieces(tile.num_keys, std::min<std::int64_t>(kAheadKeys, keys_left_), tile);
  }

 private:
  // Pieces of the next `count` keys, of which the first is key `first` of the tile.
  void add_pieces(int first, std::int64_t count, Tile& tile) {
    keys_left_ -= count;
    while (count > 0) {
      const KvSpan& span = (*spans_)[index_];
      const int take = static_cast<int>(std::min(count, span.num_rows - row_));
      if (take > 0) {
        const std::int64_t offset = row_ * span.row_stride * info(span.dtype).block_bytes;
        tile.pieces[tile.num_pieces++] = {span.k + offset, span.v + offset, span.row_stride,
                                          span.dtype,      first,           take};
        first += take;
        count -= take;
        row_ += take;
      }
      if (row_ == span.num_rows) {
        ++index_;
        row_ = 0;
      }
    }
  }

  const std::vector<KvSpan>* spans_;
  std::size_t index_ = 0;
  std::int64_t row_;
  std::int64_t keys_left_;
};

}  // namespace kv
