// The kernel of step 3, for any way to find a row: 03_tiled.cu explains it and runs it over
// contiguous rows.
#pragma once

#include "attention/arrays.cuh"
#include "attention/kernel_facts.hpp"
#include "attention/tile_shape.hpp"
#include "reduce.cuh"
#include "vector_access.cuh"

namespace kv::KV_BACKEND {

inline constexpr int kTiledThreads = 128;               ///< threads of a CTA
inline constexpr int kTiledWarps = kTiledThreads / 32;  ///< warps of a CTA
/// A warp is 4 x 8: lanes of a group share rows, lanes of a column share keys. 8 lanes of 16 bytes
/// are what the 32 banks of shared memory deliver at a time.
inline constexpr int kColumns = 8;
inline constexpr int kGroups = 32 / kColumns;  ///< groups of a warp

/// CTAs of an SM that the compiler leaves registers for: 96, 128, 168 or 255 a thread. Shared
/// memory holds as many on the larger GPUs. At head_dim 96 in fp32 three would cost a spill
/// (sm_90).
constexpr int tiled_min_ctas(int head_dim) {
  if (head_dim <= 64) return head_dim <= 32 ? 5 : 4;
  return head_dim == 96 || head_dim == 256 ? 2 : 3;
}

/// How the work of a tile is shared out; [i] counts a thread's rows, [n] its keys.
template <int kHeadDim>
struct Tile {
  static constexpr int kRows = tiled_rows(kHeadDim);                   ///< query rows of a CTA
  static constexpr int kKeys = tiled_keys(kHeadDim);                   ///< keys of a tile
  static constexpr int kThreadRows = kRows / (kTiledWarps * kGroups);  ///< rows of a thread
  static constexpr int kThreadKeys = kKeys / kColumns;                 ///< keys of a thread
  /// Elements of the output that a thread owns of each of its rows: kVectors times kWidth.
  static constexpr int kWidth = kHeadDim % (4 * kColumns) == 0 ? 4 : 2;
  static constexpr int kVectors = kHeadDim / (kWidth * kColumns);  ///< see kWidth
};

/// Padding, in floats. Rows of kv are read by 8 lanes at a time, 16 bytes each, from 8 rows: 4
/// more floats put them into different banks. Rows of p are written by 4 groups of 8 lanes: 8 more
/// floats (kKeys is a multiple of 16) keep the groups apart.
template <int kHeadDim>
struct SharedTiles {
  float q[Tile<kHeadDim>::kRows][kHeadDim];                   ///< the CTA's query rows
  float kv[Tile<kHeadDim>::kKeys][kHeadDim + 4];              ///< K of a tile, then V of the same
  float p[Tile<kHeadDim>::kRows][Tile<kHeadDim>::kKeys + 8];  ///< weights of the tile's keys
};

/// The place of a thread in its tile.
template <int kHeadDim>
struct Place {
  int warp = threadIdx.x / 32;              ///< of the CTA
  int group = threadIdx.x % 32 / kColumns;  ///< of the warp: shares rows
  int column = threadIdx.x % kColumns;      ///< in the group: shares keys

  /// Row of the tile that is the thread's i-th.
  __device__ int row(int i) const {
    return warp * (Tile<kHeadDim>::kRows / kTiledWarps) + i * kGroups + group;
  }
  /// Key of the tile that is the thread's n-th.
  __device__ int key(int n) const { return n * kColumns + column; }
  /// First element of the thread's x-th vector of a row.
  __device__ int element(int x) const { return (x * kColumns + column) * Tile<kHeadDim>::kWidth; }
};

/// The work of a CTA: some query rows of one sequence and head.
struct Task {
  SequenceRows rows;  ///< the sequence
  int h;              ///< query head
  int g;              ///< KV head
  int t_begin;        ///< first query row
  int num_rows;       ///< query rows, at most kRows
  int num_keys;       ///< keys that any of them sees
};

/// What a thread carries from tile to tile for its rows.
template <int kHeadDim>
struct RowState {
  using Shape = Tile<kHeadDim>;                                   ///< how many rows that is
  float m[Shape::kThreadRows];                                    ///< largest score so far
  float l[Shape::kThreadRows];                                    ///< denominator of its own keys
  float acc[Shape::kThreadRows][Shape::kVectors][Shape::kWidth];  ///< numerator
};

/// Stores 8 floats as two vectors. `unit` is their place in the tile in units of 16 bytes. The
/// banks serve 8 lanes at a time, whose units must differ modulo 8. Neighbouring lanes have every
/// second unit; so four lanes begin with their even unit, and the next four with their odd one.
/// \param to   in shared memory, 16-byte aligned
/// \param x    registers
/// \param unit modulo 8
__device__ inline void store_halves(float* to, const float (&x)[8], int unit) {
  const bool other_first = (unit ^ threadIdx.x / 4) & 1;
  const float4 a = make_float4(x[0], x[1], x[2], x[3]);
  const float4 b = make_float4(x[4], x[5], x[6], x[7]);
  auto* half = reinterpret_cast<float4*>(to);
  half[other_first ? 1 : 0] = other_first ? b : a;
  half[other_first ? 0 : 1] = other_first ? a : b;
}

/// Fills a tile from rows of global memory, all threads together; row_address(r) is where row r
/// begins. Rows from num_rows on become zeros: nobody may read past a sequence.
//! [load tile]
template <typename T, int kHeadDim, int kTileRows, int kPitch, typename RowAddress>
__device__ void load_tile(float (&tile)[kTileRows][kPitch], int num_rows,
                          const RowAddress& row_address) {
  constexpr int kCount = 16 / sizeof(T);  // elements of one load
  constexpr int kLoadsPerRow = kHeadDim / kCount;
  constexpr int kLoads = kTileRows * kLoadsPerRow;
  // A fixed number of rounds: the compiler unrolls them and starts all loads before it needs one.
  for (int round = 0; round * kTiledThreads < kLoads; ++round) {
    const int i = round * kTiledThreads + threadIdx.x;
    if (kLoads % kTiledThreads != 0 && i >= kLoads) break;
    const int row = i / kLoadsPerRow;
    const int d = i % kLoadsPerRow * kCount;
    uint4 bits = make_uint4(0, 0, 0, 0);
    if (row < num_rows) bits = *reinterpret_cast<const uint4*>(row_address(row) + d);
    float x[kCount];
    widen_16_bytes<T>(x, bits);
    if constexpr (kCount == 4) {
      store_vector(&tile[row][d], x);
    } else {
      store_halves(&tile[row][d], x, (row * kPitch + d) / 4);
    }
  }
}
//! [load tile]

/// s[i][n] = scale * sum_d q[row i, d] * k[key n, d]
//! [score tile]
template <int kHeadDim, int kThreadRows, int kThreadKeys>
__device__ void score_tile(float (&s)[kThreadRows][kThreadKeys], const SharedTiles<kHeadDim>& tiles,
                           const Place<kHeadDim>& place, float scale) {
  for (int i = 0; i < kThreadRows; ++i)
    for (int n = 0; n < kThreadKeys; ++n) s[i][n] = 0.0f;
  for (int d = 0; d < kHeadDim; d += 4) {
    float q[kThreadRows][4], k[kThreadKeys][4];
    for (int i = 0; i < kThreadRows; ++i) load_vector(q[i], &tiles.q[place.row(i)][d]);
    for (int n = 0; n < kThreadKeys; ++n) load_vector(k[n], &tiles.kv[place.key(n)][d]);
    // Every number that was loaded is used kThreadKeys or kThreadRows times: from registers.
    for (int i = 0; i < kThreadRows; ++i)
      for (int n = 0; n < kThreadKeys; ++n)
        for (int e = 0; e < 4; ++e) s[i][n] += q[i][e] * k[n][e];
  }
  for (int i = 0; i < kThreadRows; ++i)
    for (int n = 0; n < kThreadKeys; ++n) s[i][n] *= scale;
}
//! [score tile]

/// Takes a tile of scores into m and l, brings acc to the new maximum, and leaves the weights
/// p = exp(s - m) in shared memory. A masked score is -inf.
//! [online softmax of a tile]
template <int kHeadDim, int kThreadRows, int kThreadKeys>
__device__ void softmax_tile(RowState<kHeadDim>& state, SharedTiles<kHeadDim>& tiles,
                             const float (&s)[kThreadRows][kThreadKeys],
                             const Place<kHeadDim>& place) {
  for (int i = 0; i < kThreadRows; ++i) {
    float m = state.m[i];
    for (int n = 0; n < kThreadKeys; ++n) m = fmaxf(m, s[i][n]);
    m = warp_max<kColumns>(m);  // the 8 lanes of the group hold the other keys of the row

    // While a row has seen no key, m is -inf and (-inf) - (-inf) would be NaN. The guard belongs
    // into the exponent only: a maximum of 0 in the state would hide scores far below 0.
    const float shift = m == -INFINITY ? 0.0f : m;
    const float rescale = expf(state.m[i] - shift);
    state.m[i] = m;
    state.l[i] *= rescale;
    for (auto& vector : state.acc[i])
      for (float& element : vector) element *= rescale;

    for (int n = 0; n < kThreadKeys; ++n) {
      const float p = expf(s[i][n] - shift);
      state.l[i] += p;
      tiles.p[place.row(i)][place.key(n)] = p;
    }
  }
}
//! [online softmax of a tile]

/// acc[i][d] += sum_j p[row i, j] * v[j, d]. With a mask, row i takes only the first num_visible[i]
/// keys of the tile: the others are left out, not multiplied by 0, which would let a NaN through.
template <bool kMasked, int kHeadDim, int kThreadRows>
__device__ void add_values(RowState<kHeadDim>& state, const SharedTiles<kHeadDim>& tiles,
                           const Place<kHeadDim>& place, const int (&num_visible)[kThreadRows]) {
  using Shape = Tile<kHeadDim>;
  for (int j = 0; j < Shape::kKeys; j += 4) {
    float p[kThreadRows][4];
    for (int i = 0; i < kThreadRows; ++i) load_vector(p[i], &tiles.p[place.row(i)][j]);
    for (int e = 0; e < 4; ++e)
      for (int x = 0; x < Shape::kVectors; ++x) {
        float v[Shape::kWidth];
        load_vector(v, &tiles.kv[j + e][place.element(x)]);
        for (int i = 0; i < kThreadRows; ++i) {
          if (kMasked && j + e >= num_visible[i]) continue;
          for (int y = 0; y < Shape::kWidth; ++y) state.acc[i][x][y] += p[i][e] * v[y];
        }
      }
  }
}

/// Divides by the sum over all keys and writes the rows that exist to a.out and a.lse.
template <typename Arrays, int kHeadDim>
__device__ void write_rows(const Arrays& a, const Task& task, const RowState<kHeadDim>& state,
                           const Place<kHeadDim>& place) {
  using Shape = Tile<kHeadDim>;
  for (int i = 0; i < Shape::kThreadRows; ++i) {
    // Each lane has summed its own keys; all of them were scaled alike.
    const float l = warp_sum<kColumns>(state.l[i]);
    if (place.row(i) >= task.num_rows) continue;
    const std::int64_t row = a.q_index(task.rows, task.t_begin + place.row(i), task.h);
    const float factor = l == 0.0f ? 0.0f : 1.0f / l;  // 0: a row without keys
    for (int x = 0; x < Shape::kVectors; ++x) {
      float out[Shape::kWidth];
      for (int y = 0; y < Shape::kWidth; ++y) out[y] = state.acc[i][x][y] * factor;
      store_vector(a.out + row * kHeadDim + place.element(x), out);
    }
    if (a.lse && place.column == 0) a.lse[row] = l == 0.0f ? -INFINITY : state.m[i] + logf(l);
  }
}

/// One tile of keys from j_begin on, read from a.k and a.v. With kMasked some row does not see all
/// of its keys.
//! [visit tile]
template <bool kMasked, typename T, typename Arrays, int kHeadDim>
__device__ void visit_tile(const Arrays& a, const Task& task, int j_begin,
                           RowState<kHeadDim>& state, SharedTiles<kHeadDim>& tiles,
                           const Place<kHeadDim>& place) {
  using Shape = Tile<kHeadDim>;
  const int num_tile_keys = task.num_keys - j_begin;  // may be more than a tile
  const auto k_row = [&](int j) {
    return a.k + a.kv_index(task.rows, j_begin + j, task.g) * kHeadDim;
  };
  const auto v_row = [&](int j) {
    return a.v + a.kv_index(task.rows, j_begin + j, task.g) * kHeadDim;
  };

  __syncthreads();  // K takes the place of the last tile's V: every warp must be done with it
  load_tile<T, kHeadDim>(tiles.kv, num_tile_keys, k_row);
  __syncthreads();  // K (the first time also q) is complete before any warp reads its rows

  float s[Shape::kThreadRows][Shape::kThreadKeys];
  score_tile(s, tiles, place, a.scale);
  int num_visible[Shape::kThreadRows];  // keys of this tile that row i sees
  if constexpr (kMasked) {
    for (int i = 0; i < Shape::kThreadRows; ++i) {
      const int t = min(task.t_begin + place.row(i), task.rows.q_len - 1);
      num_visible[i] = visible_keys(t, task.rows, a.causal) - j_begin;
      for (int n = 0; n < Shape::kThreadKeys; ++n)
        if (place.key(n) >= num_visible[i]) s[i][n] = -INFINITY;
    }
  }

  __syncthreads();  // V takes the place of K: every warp must have its scores
  load_tile<T, kHeadDim>(tiles.kv, num_tile_keys, v_row);
  softmax_tile(state, tiles, s, place);
  __syncthreads();  // V is complete; and the weights are, which other lanes of the warp read
  add_values<kMasked>(state, tiles, place, num_visible);
}
//! [visit tile]

/// Attention of a block of query rows against a tile of keys at a time.
///
/// Legend: t query row, j key, h query head, g KV head, d element.
/// q, out [num_q_rows, num_q_heads, head_dim] fp32; k, v: rows of [head_dim], found by a.kv_index()
/// grid (blocks of query rows, num_q_heads, num_sequences), CTA (128)
template <typename T, int kHeadDim, template <typename> class Arrays>
__global__ void __launch_bounds__(kTiledThreads, tiled_min_ctas(kHeadDim))
    tiled_kernel(Arrays<T> a) {
  using Shape = Tile<kHeadDim>;
  auto& tiles = *dynamic_shared<SharedTiles<kHeadDim>>();
  const SequenceRows rows = a.rows_of(blockIdx.z);
  Task task;
  task.rows = rows;
  task.h = blockIdx.y;
  task.g = a.kv_head(task.h);
  // The last rows first: under a causal mask they have the most keys, and a GPU that starts with
  // the long CTAs does not wait for one of them at the end.
  task.t_begin = (gridDim.x - 1 - blockIdx.x) * Shape::kRows;
  if (task.t_begin >= task.rows.q_len) return;  // the whole CTA: nobody is missed at a barrier
  task.num_rows = min(task.rows.q_len - task.t_begin, Shape::kRows);
  // The last row sees the most keys: tiles from there on are masked as a whole and skipped. The
  // first row sees the fewest: tiles below num_open have no mask.
  task.num_keys = visible_keys(task.t_begin + task.num_rows - 1, task.rows, a.causal);
  const int num_open = visible_keys(task.t_begin, task.rows, a.causal);

  const Place<kHeadDim> place;
  RowState<kHeadDim> state;
  for (int i = 0; i < Shape::kThreadRows; ++i) {
    state.m[i] = -INFINITY;
    state.l[i] = 0.0f;
    for (auto& vector : state.acc[i])
      for (float& element : vector) element = 0.0f;
  }

  load_tile<float, kHeadDim>(tiles.q, task.num_rows, [&](int row) {
    return a.q + a.q_index(task.rows, task.t_begin + row, task.h) * kHeadDim;
  });
  int j = 0;
  for (; j + Shape::kKeys <= num_open; j += Shape::kKeys)
    visit_tile<false, T>(a, task, j, state, tiles, place);
  for (; j < task.num_keys; j += Shape::kKeys) visit_tile<true, T>(a, task, j, state, tiles, place);
  write_rows(a, task, state, place);
}

/// Runs the kernel on every sequence of a launch.
///
/// \param l           shapes, sequences and stream of the launch
/// \param make_arrays make_arrays(T{}) gives the Arrays<T> of the launch
/// \throws std::runtime_error when the launch fails
template <template <typename> class Arrays, typename MakeArrays>
void launch_tiled_kernel(const AttentionLaunch& l, const MakeArrays& make_arrays) {
  with_kernel_types(l.shape, [&](auto type, auto head_dim) {
    using T = decltype(type);
    constexpr int kHeadDim = head_dim.value;
    constexpr int kRows = Tile<kHeadDim>::kRows;
    const auto kernel = tiled_kernel<T, kHeadDim, Arrays>;
    constexpr std::size_t shared_bytes = sizeof(SharedTiles<kHeadDim>);
    static_assert(shared_bytes == dynamic_shared_bytes("tiled_kernel", kHeadDim));
    check_cuda(allow_shared(kernel, shared_bytes), "tiled_kernel shared memory");
    const dim3 grid((l.max_q_len + kRows - 1) / kRows, l.shape.heads.num_q_heads, l.num_sequences);
    launch(kernel, grid, kTiledThreads, shared_bytes, l.stream, make_arrays(type));
    check_cuda(cudaGetLastError(), "tiled_kernel launch");
  });
}

}  // namespace kv::KV_BACKEND
