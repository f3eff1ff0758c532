// Attention of few rows over keys that are read in several places at once.
//
// Decode reads a long sequence in kRuns distant places at once, kRunKeys keys of each at a time: a
// processor fetches ahead along each place it sees being read, up to the end of the page, and
// several such streams keep more reads under way than one (measured cold, two threads: 25 %
// faster).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "kv/fast/tile_reader.hpp"
#include "kv/fast/unit_rows.hpp"

namespace kv::fast {

/// Places that are read at once.
inline constexpr std::size_t kRuns = 4;
/// Keys of each place in one tile.
inline constexpr int kRunKeys = kTileKeys / int{kRuns};
/// Keys of each run whose values are added while sums stay in registers.
inline constexpr int kRunStep = 4;

/// Whether a tile consists of kRuns equal pieces, as it does unless a span ends inside a run.
inline bool has_equal_runs(const Tile& tile) {
  if (tile.num_pieces != kRuns) return false;
  const Piece& first = tile.pieces[0];
  return std::ranges::all_of(tile.all(), [&](const Piece& piece) {
    return piece.num_keys == kRunKeys && piece.dtype == first.dtype && piece.stride == first.stride;
  });
}

/// take_in() for tiles of equal runs. Every row sees every key. Key j of the scores is key j /
/// kRuns of run j % kRuns: the softmax does not ask for an order.
///
/// \param tiles    each of kRuns runs of equally many keys
/// \param rows     query rows that share a KV head
/// \param visible  every key of the tiles, for every row
/// \param scale    factor on q.k
/// \param head_dim elements of a row
template <class T>
inline void take_in_runs(std::span<const Tile> tiles, std::span<const Rows> rows,
                         const Visibility& visible, float scale, int head_dim) {
  const auto runs = [&](std::size_t g, const std::byte* Piece::*which, int key) {
    std::array<const T*, kRuns> row;
    for (std::size_t n = 0; n < kRuns; ++n) {
      const Piece& piece = tiles[g].pieces[n];
      row[n] = reinterpret_cast<const T*>(piece.*which) + key * piece.stride;
    }
    return row;
  };
  // A token's heads lie side by side and are visited together, so that every line is read once.
  // Ahead lie the values of the same keys, then the keys of the next tile.
  for (int i = 0; i < kRunKeys; ++i)
    for (std::size_t g = 0; g < tiles.size(); ++g)
      score_rows<kRuns, T>(rows[g].q, rows[g].count, head_dim, runs(g, &Piece::k, i),
                           runs(g, &Piece::v, i), rows[g].scores + i * kRuns);
  for (const Rows& head : rows) softmax_rows(visible, head, scale, head_dim);
  for (int i = 0; i < kRunKeys; i += kRunStep)
    for (std::size_t g = 0; g < tiles.size(); ++g)
      add_few_values<kRuns, T>(rows[g].count, rows[g].scores + i * kRuns, runs(g, &Piece::v, i),
                               runs(g, &Piece::k, i + kRunKeys), tiles[g].pieces[0].stride,
                               kRunStep, head_dim, rows[g].out);
}

}  // namespace kv::fast
