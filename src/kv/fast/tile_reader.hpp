// Where the keys of a tile lie, however the spans cut it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kv/cache/sequence_state.hpp"
#include "kv/fast/tile_kernels.hpp"

namespace kv::fast {

/// A piece of a tile that lies in one span.
struct Piece {
  const std::byte* k;   ///< first row of K
  const std::byte* v;   ///< first row of V
  std::int64_t stride;  ///< elements from one row to the next
  DType dtype;          ///< of the elements
  int first;            ///< key of the tile
  int num_keys;         ///< keys of the piece
};

/// The keys of one tile, where they lie.
struct Tile {
  std::array<Piece, kTileKeys> pieces;  ///< [num_pieces] valid
  int num_pieces = 0;                   ///< spans that the tile lies in
  int num_keys = 0;                     ///< of all pieces

  /// Makes the tile empty.
  void clear() { num_pieces = num_keys = 0; }
  /// The valid pieces.
  std::span<const Piece> all() const {
    return {pieces.data(), static_cast<std::size_t>(num_pieces)};
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

  /// Adds the next keys to a tile: `max_keys` of them, or what is left.
  void append(std::int64_t max_keys, Tile& tile) {
    std::int64_t count = std::min(max_keys, keys_left_);
    keys_left_ -= count;
    while (count > 0) {
      const KvSpan& span = (*spans_)[index_];
      const int take = static_cast<int>(std::min(count, span.num_rows - row_));
      if (take > 0) {
        const std::int64_t offset = row_ * span.row_stride * info(span.dtype).block_bytes;
        tile.pieces[tile.num_pieces++] = {span.k + offset, span.v + offset, span.row_stride,
                                          span.dtype,      tile.num_keys,   take};
        tile.num_keys += take;
        count -= take;
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

}  // namespace kv::fast
