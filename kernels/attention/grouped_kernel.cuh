// The kernel of step 6, for any way to find a row: 06_grouped.cu explains it and runs it over
// contiguous rows.
#pragma once

#include <type_traits>

#include "attention/arrays.cuh"
#include "attention/float_fragments.cuh"
#include "attention/fragments.cuh"
#include "attention/kernel_facts.hpp"
#include "attention/tile_shape.hpp"

namespace kv::KV_BACKEND {

/// The sizes of one instance. kHeadTiles: how often 16 rows of an mma, the query heads of a group.
template <typename T, int kHeadDimIn, int kHeadTilesIn>
struct GroupedShape {
  static constexpr int kHeadDim = kHeadDimIn;                      ///< elements of a head
  static constexpr int kHeadTiles = kHeadTilesIn;                  ///< so often 16 query heads
  static constexpr int kWarps = grouped_warps(kHeadDim);           ///< of a CTA
  static constexpr int kThreads = 32 * kWarps;                     ///< of a CTA
  static constexpr int kKeys = grouped_keys(kHeadDim, sizeof(T));  ///< of a tile
  static constexpr int kSlots = grouped_slots(kHeadDim);           ///< of a warp's ring
  static constexpr int kStride = kWarps * kKeys;     ///< keys from a warp's tile to its next
  static constexpr int kElements = 16 / sizeof(T);   ///< of a chunk
  using Place = SwizzledRows<kHeadDim / kElements>;  ///< where a row's chunks lie in a tile
  using QueryTile = uint4[16 * Place::kChunks];      ///< 16 query heads, swizzled
  using Slot = uint4[kKeys * Place::kChunks];        ///< the keys or the values of a tile

  /// How a warp copies a slot: kPlaces lanes lie on a row, the warp on kStep rows at a time.
  static constexpr int kStep = 32 / Place::kPlaces;
  static constexpr int kLaneRows = kKeys / kStep;  ///< rows of a tile that a lane copies from
  static_assert(kKeys % kStep == 0 && kKeys % 8 == 0);

  /// What a warp leaves in its ring for the others after the loop. 8 floats of padding: the four
  /// rows that half a warp writes at once lie in different banks.
  struct State {
    float m[16 * kHeadTiles];     ///< largest score of each query head, times log2(e)
    float l[16 * kHeadTiles];     ///< denominator of each query head
    float out[16][kHeadDim + 8];  ///< numerators, of one head tile at a time
  };
  /// One warp's: tiles during the loop, its state behind it.
  union Ring {
    Slot slots[kSlots];  ///< keys and values, as they come
    State state;         ///< once no copy is under way
  };
  /// The CTA's shared memory.
  struct Shared {
    QueryTile q[kHeadTiles];  ///< written by all warps before the loop
    Ring rings[kWarps];       ///< one a warp
  };
  static_assert(sizeof(Ring) == sizeof(Slot) * kSlots, "the state must fit into the ring");
};

/// Before compute capability 8.0 an asynchronous copy is a load and a store, through registers:
/// then there are too few to keep addresses in, and one loop must do.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
inline constexpr bool kCopiesNeedRegisters = true;
#else
inline constexpr bool kCopiesNeedRegisters = false;
#endif

/// Whether the address of a row is made at each copy instead of being kept since the tile before.
/// In fp32 with 256 elements a head, addresses out of a table would be more than 255 registers hold
/// (sm_90).
template <typename Shape, typename Arrays>
inline constexpr bool kFindsAnew = kCopiesNeedRegisters ||
                                   (Shape::kElements == 4 && Shape::kHeadDim == 256 &&
                                    !kRowsAreEquidistant<Arrays>);

/// A warp's copies into its ring: the keys of a tile, its values, the keys of the warp's next tile
/// and so on, each into the slot that is free. For each of the lane's rows in a tile one address is
/// kept, made when the tile before has been copied.
///
/// kWhole: all keys of the tile exist, and of the next.
template <typename Shape, typename Arrays>
struct RingFeed {
  using Place = typename Shape::Place;  ///< where a row's chunks lie in a slot

  const Arrays& a;        ///< of the launch
  SequenceRows sequence;  ///< whose keys
  int kv_head;            ///< of the item
  int end;                ///< of the item: the first key that is not its own
  int key;                ///< the lane's first of the tile
  int place;              ///< of that key's chunk in a slot
  int chunk;              ///< the lane's first of a row
  /// Where the lane's first chunks of its keys lie, in elements.
  std::int64_t rows[Shape::kLaneRows] = {};

  /// \param a_in        arrays of the launch
  /// \param sequence_in whose keys
  /// \param kv_head_in  of the item
  /// \param begin       first key of the warp's first tile
  /// \param end_in      of the item
  __device__ RingFeed(const Arrays& a_in, const SequenceRows& sequence_in, int kv_head_in,
                      int begin, int end_in)
      : a(a_in), sequence(sequence_in), kv_head(kv_head_in), end(end_in) {
    const int row = threadIdx.x % 32 / Place::kPlaces;
    chunk = threadIdx.x % Place::kPlaces;
    key = begin + row;
    place = Place::index(row, chunk);
    locate<false>();
  }

  /// The addresses of the next tile's rows. A key past the end has the address of the last: nothing
  /// is read there.
  //! [locate]
  template <bool kWhole>
  __device__ __forceinline__ void locate() {
    if (!kWhole && end <= 0) return;  // no key at all, and perhaps no row to speak of
    for (int r = 0; r < Shape::kLaneRows; ++r) {
      if constexpr (kWhole && kRowsAreEquidistant<Arrays>) {
        rows[r] += static_cast<std::int64_t>(Shape::kStride * Shape::kHeadDim) * a.num_kv_heads;
      } else {
        rows[r] = find_row(r);
      }
    }
  }
  /// The lane's row r of the tile, in elements.
  __device__ __forceinline__ std::int64_t find_row(int r) const {
    const int j = min(key + r * Shape::kStep, end - 1);
    return a.kv_index(sequence, j, kv_head) * Shape::kHeadDim + chunk * Shape::kElements;
  }
  //! [locate]

  /// Starts the copy of a tile into `slot`. Rows past the end become zeros, so that a weight of 0
  /// has a number to be multiplied by.
  ///
  /// \param slot   of the warp's ring
  /// \param source K or V of the whole launch
  //! [fill]
  template <bool kWhole, typename T>
  __device__ __forceinline__ void copy(typename Shape::Slot& slot, const T* source) const {
    for (int r = 0; r < Shape::kLaneRows; ++r) {
      // Rows are kStep apart, of which the swizzle sees every second one: 8 apart, they look alike.
      static_assert(Shape::kStep % 8 == 0 || Shape::kStep == 4);
      const int first =
          (r * Shape::kStep % 8 == 0 ? place : place ^ 4) + r * Shape::kStep * Place::kChunks;
      const T* const from = source + (kFindsAnew<Shape, Arrays> ? find_row(r) : rows[r]);
      for (int c = 0; c < Place::kChunks; c += Place::kPlaces)
        cp_async_16(&slot[first + c], from + c * Shape::kElements,
                    kWhole || key + r * Shape::kStep < end ? 16 : 0);
    }
  }
  /// The next slot's worth: keys, or the values of the same tile, after which the next is located.
  template <bool kWhole, bool kValues>
  __device__ __forceinline__ void fill(typename Shape::Slot& slot) {
    if (!kFindsAnew<Shape, Arrays> || end > 0) copy<kWhole>(slot, kValues ? a.v : a.k);
    cp_async_commit();
    if (!kValues) return;
    key += Shape::kStride;
    if constexpr (!kFindsAnew<Shape, Arrays>) locate<kWhole>();
  }
  //! [fill]
};

/// Where a lane reads in a tile.
struct LaneIndex {
  int k;  ///< of what it names to ldmatrix: rows 0-7 | 0-7 | 8-15 | 8-15, chunks 0 | 1 | 0 | 1
  int v;  ///< transposed, and of q:         rows 0-7 | 8-15 | 0-7 | 8-15, chunks 0 | 0 | 1 | 1

  /// Of the thread that asks.
  template <typename Shape>
  static __device__ LaneIndex make() {
    const int lane = threadIdx.x % 32;
    return {Shape::Place::index(lane % 8 + lane / 16 * 8, lane / 8 % 2),
            Shape::Place::index(lane % 16, lane / 16)};
  }
};

/// Operand a of the queries, read from shared memory at each use: in registers they would cost half
/// as many as the accumulators do.
template <typename Shape>
struct SharedQueries {
  const typename Shape::QueryTile& tile;  ///< 16 query heads
  int lane;                               ///< LaneIndex::v

  /// Operand a for the elements 16 d to 16 d + 15.
  __device__ void get(int d, unsigned (&a)[4]) const {
    ldmatrix_x4(a, &tile[Shape::Place::index_from(lane, 2 * d)]);
  }
};

/// s = q K^T, unscaled, on tensor cores in 16 bit and without them in fp32.
///
/// \param s    the thread's scores, written
/// \param q    16 query heads
/// \param k    the keys of a tile
/// \param lane what this lane reads of it
template <typename T, typename Shape>
__device__ __forceinline__ void scores(float (&s)[Shape::kKeys / 8][4],
                                       const typename Shape::QueryTile& q,
                                       const typename Shape::Slot& k, const LaneIndex& lane) {
  if constexpr (sizeof(T) == 4) {
    multiply_keys<Shape::kHeadDim>(s, q, k);
  } else {
    multiply_keys<T, Shape::kHeadDim>(s, SharedQueries<Shape>{q, lane.v}, k, lane.k);
  }
}
/// Adds the values of a tile, weighted, to what the heads have gathered.
///
/// \param heads   16 query heads
/// \param weights as scores() has laid them out
/// \param v       the values of the tile
/// \param lane    what this lane reads of it
template <typename T, typename Shape>
__device__ __forceinline__ void add_values(Rows<Shape::kHeadDim>& heads,
                                           const float (&weights)[Shape::kKeys / 8][4],
                                           const typename Shape::Slot& v, const LaneIndex& lane) {
  if constexpr (sizeof(T) == 4) {
    multiply_values<Shape::kHeadDim>(heads, weights, v);
  } else {
    multiply_values<T, Shape::kHeadDim>(heads, weights, v, lane.v);
  }
}

/// The heads of an item into shared memory, rounded to T; rows without a head are zero.
///
/// \param shared    the CTA's shared memory; its queries are written
/// \param q         [num_heads, head_dim] global memory
/// \param num_heads query heads of the item, at most 16 * kHeadTiles
template <typename T, typename Shape>
__device__ __forceinline__ void load_queries(typename Shape::Shared& shared, const float* q,
                                             int num_heads) {
  constexpr int kChunks = Shape::Place::kChunks;
  for (int i = threadIdx.x; i < 16 * Shape::kHeadTiles * kChunks; i += Shape::kThreads) {
    const int row = i / kChunks, c = i % kChunks;
    unsigned words[4] = {};
    if (row < num_heads) {
      const float4* const from = reinterpret_cast<const float4*>(q + i * Shape::kElements);
      const float4 x = from[0];
      if constexpr (sizeof(T) == 4) {
        words[0] = __float_as_uint(x.x), words[1] = __float_as_uint(x.y);
        words[2] = __float_as_uint(x.z), words[3] = __float_as_uint(x.w);
      } else {
        const float4 y = from[1];
        words[0] = pack<T>(x.x, x.y), words[1] = pack<T>(x.z, x.w);
        words[2] = pack<T>(y.x, y.y), words[3] = pack<T>(y.z, y.w);
      }
    }
    shared.q[row / 16][Shape::Place::index(row % 16, c)] =
        make_uint4(words[0], words[1], words[2], words[3]);
  }
}

/// Scores s of the keys from num_keys of the tile on become -inf.
template <int kNumTiles>
__device__ __forceinline__ void mask(float (&s)[kNumTiles][4], int num_keys) {
  for (int i = 0; i < kNumTiles; ++i)
    for (int e = 0; e < 2; ++e)
      if (8 * i + static_cast<int>(threadIdx.x % 4 * 2) + e >= num_keys)
        s[i][e] = s[i][2 + e] = -INFINITY;
}

/// Maximum and sum of a row over all warps.
struct RowTotal {
  float m;  ///< times log2(e)
  float l;  ///< relative to m
};
/// m and l of a row; m = -inf and l = 0 when no warp has seen a key.
template <typename Shape>
__device__ __forceinline__ RowTotal total_of_row(const typename Shape::Shared& shared, int row) {
  float m = -INFINITY, l = 0.0f;
  for (const auto& ring : shared.rings) m = fmaxf(m, ring.state.m[row]);
  const float base = m == -INFINITY ? 0.0f : m;
  for (const auto& ring : shared.rings)
    l += exp2_approx(ring.state.m[row] - base) * ring.state.l[row];
  return {m, l};
}

/// The states of the warps become one result, in the place of their rings.
///
/// \param shared    the CTA's shared memory; no copy into its rings may be under way
/// \param heads     this warp's state, 16 query heads each
/// \param num_heads query heads of the item
/// \param out       [num_heads, head_dim], written
/// \param lse       [num_heads], written; or null
//! [combine]
template <typename Shape>
__device__ __forceinline__ void combine_warps(typename Shape::Shared& shared,
                                              Rows<Shape::kHeadDim> (&heads)[Shape::kHeadTiles],
                                              int num_heads, float* out, float* lse) {
  constexpr int kHeadDim = Shape::kHeadDim;
  typename Shape::State& own = shared.rings[threadIdx.x / 32].state;
  const int row = threadIdx.x % 32 / 4;  // and row + 8
  unrolled<Shape::kHeadTiles>([&]<int t>() {
    for (int r = 0; r < 2; ++r) {
      const float l = quad_sum(heads[t].l[r]);
      if (threadIdx.x % 4 != 0) continue;
      own.m[16 * t + row + 8 * r] = heads[t].m[r];
      own.l[16 * t + row + 8 * r] = l;
    }
  });
  __syncthreads();  // every warp's maxima and sums are there for all

  if (const int h = threadIdx.x; lse && h < num_heads) {
    const RowTotal total = total_of_row<Shape>(shared, h);
    lse[h] = total.l == 0.0f ? -INFINITY : total.m * kLn2 + logf(total.l);
  }
  unrolled<Shape::kHeadTiles>([&]<int t>() {
    for (int r = 0; r < 2; ++r) {
      // Each warp's share of the quotient, so that what is left to do is a sum.
      const RowTotal total = total_of_row<Shape>(shared, 16 * t + row + 8 * r);
      const float base = total.m == -INFINITY ? 0.0f : total.m;
      const float share = total.l == 0.0f ? 0.0f : exp2_approx(heads[t].m[r] - base) / total.l;
      for (int i = 0; i < kHeadDim / 8; ++i)
        *reinterpret_cast<float2*>(&own.out[row + 8 * r][8 * i + threadIdx.x % 4 * 2]) =
            make_float2(heads[t].out[i][2 * r] * share, heads[t].out[i][2 * r + 1] * share);
    }
    __syncthreads();  // every warp's shares are there for all

    const int num_rows = min(16, num_heads - 16 * t);
    for (int i = threadIdx.x; i < num_rows * kHeadDim / 4; i += Shape::kThreads) {
      float sum[4] = {};
      for (const auto& ring : shared.rings) {
        float part[4];
        load_vector(part, &ring.state.out[i / (kHeadDim / 4)][i % (kHeadDim / 4) * 4]);
        for (int x = 0; x < 4; ++x) sum[x] += part[x];
      }
      store_vector(out + 16 * t * kHeadDim + 4 * i, sum);
    }
    if (t + 1 < Shape::kHeadTiles)
      __syncthreads();  // all have read the shares of these heads: those of the next may come
  });
}
//! [combine]

/// One tile of keys for all heads of the item, by one warp. kWhole: all keys exist, also of the
/// tiles that are copied meanwhile.
///
/// \param shared     the CTA's shared memory: queries and rings
/// \param heads      this warp's state, 16 query heads each; takes the tile in
/// \param feed       starts the copies of the tiles to come
/// \param slot       of the warp's ring, next in turn; moved on
/// \param num_left   keys of the item from the tile's first on
/// \param lane       what this lane reads of a tile
/// \param scale_log2 scale * log2(e): weights are powers of two
//! [pipeline]
template <bool kWhole, typename T, typename Shape, typename Arrays>
__device__ __forceinline__ void take_tile(typename Shape::Shared& shared,
                                          Rows<Shape::kHeadDim> (&heads)[Shape::kHeadTiles],
                                          RingFeed<Shape, Arrays>& feed, int& slot, int num_left,
                                          const LaneIndex& lane, float scale_log2) {
  constexpr int kSlots = Shape::kSlots;
  auto& slots = shared.rings[threadIdx.x / 32].slots;
  float s[Shape::kHeadTiles][Shape::kKeys / 8][4];

  cp_async_wait<kSlots - 1>();
  __syncwarp();  // the keys, copied by all lanes, are there for all
  unrolled<Shape::kHeadTiles>(
      [&]<int t>() { scores<T, Shape>(s[t], shared.q[t], slots[slot], lane); });
  __syncwarp();  // all lanes have read the keys: their slot may be filled again
  feed.template fill<kWhole, kSlots % 2 == 1>(slots[slot]);
  slot = slot + 1 == kSlots ? 0 : slot + 1;

  unrolled<Shape::kHeadTiles>([&]<int t>() {
    if constexpr (!kWhole) mask(s[t], num_left);
    softmax_step(s[t], heads[t], scale_log2);
  });

  cp_async_wait<kSlots - 1>();
  __syncwarp();  // the values, copied by all lanes, are there for all
  unrolled<Shape::kHeadTiles>(
      [&]<int t>() { add_values<T, Shape>(heads[t], s[t], slots[slot], lane); });
  __syncwarp();  // all lanes have read the values: their slot may be filled again
  feed.template fill<kWhole, kSlots % 2 == 0>(slots[slot]);
  slot = slot + 1 == kSlots ? 0 : slot + 1;
}
//! [pipeline]

/// Side by side on an SM: the compiler gives a thread no more registers than that leaves (168 or
/// 255).
template <typename T, int kHeadDim, int kHeadTiles>
constexpr int kGroupedCtas = sizeof(T) == 2 && kHeadTiles == 1 && kHeadDim <= 128 &&
                                     !kCopiesNeedRegisters
                                 ? 3
                                 : 1;

/// Decode attention of all query heads of a group at once, one item of the split a CTA.
///
/// q, out    [num_q_rows, num_q_heads, head_dim]   k, v: rows of [head_dim], found by a.kv_index()
/// split.out [num_partials, heads_per_item, head_dim]   split.lse [num_partials, heads_per_item]
/// grid (num_items), CTA (32 * kWarps); warp w takes the tiles w, w + kWarps, ... of the item's
/// keys a.scale is the scale times log2(e)
template <typename T, int kHeadDim, int kHeadTiles, template <typename> class Arrays>
__global__ void __launch_bounds__(GroupedShape<T, kHeadDim, kHeadTiles>::kThreads,
                                  kGroupedCtas<T, kHeadDim, kHeadTiles>)
    grouped_kernel(Arrays<T> a, SplitArrays split) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
  if (std::is_same_v<T, bf16>) {  // AttentionShape::validate() does not let it come to this
    __trap();
    return;
  }
#endif
  using Shape = GroupedShape<T, kHeadDim, kHeadTiles>;
  typename Shape::Shared& shared = *dynamic_shared<typename Shape::Shared>();
  const SplitItem item = plan_entry(split.items, blockIdx.x);
  const SequenceRows sequence = a.rows_of(item.sequence);
  const int num_heads = split.heads_per_item;
  const int first_head = item.head * num_heads;
  const std::int64_t q_index = a.q_index(sequence, item.row, first_head);
  const int warp = threadIdx.x / 32;

  //! [loop]
  int begin = item.begin + warp * Shape::kKeys;  // first key of the tile that is next in turn
  RingFeed<Shape, Arrays<T>> feed(a, sequence, a.kv_head(first_head), begin, item.end);
  unrolled<Shape::kSlots>(
      [&]<int i>() { feed.template fill<false, i % 2 == 1>(shared.rings[warp].slots[i]); });
  load_queries<T, Shape>(shared, a.q + q_index * kHeadDim, num_heads);
  __syncthreads();  // the queries, written by all warps, are there for all: the last time that one
                    // warp waits for another before the keys are done

  const LaneIndex lane = LaneIndex::make<Shape>();
  Rows<kHeadDim> heads[kHeadTiles] = {};
  int slot = 0;
  // While a tile is multiplied, others are copied or looked up, up to kAhead tiles further on. As
  // long as those are whole, nobody has to ask which keys exist.
  constexpr int kAhead = Shape::kSlots / 2 + 1;
  constexpr int kWholeKeys = kAhead * Shape::kStride + Shape::kKeys;
  if constexpr (!kFindsAnew<Shape, Arrays<T>>)
    for (; item.end - begin >= kWholeKeys; begin += Shape::kStride)
      take_tile<true, T>(shared, heads, feed, slot, Shape::kKeys, lane, a.scale);
  for (; begin < item.end; begin += Shape::kStride)
    take_tile<false, T>(shared, heads, feed, slot, item.end - begin, lane, a.scale);
  cp_async_wait<0>();  // rows past the end are on their way into the ring, as zeros
  __syncwarp();        // and all lanes' are there, before the warp's state takes their place
  //! [loop]

  const bool is_part = item.partial >= 0;
  const std::int64_t index =
      is_part ? static_cast<std::int64_t>(item.partial) * num_heads : q_index;
  float* const out = is_part ? split.out : a.out;
  float* const lse = is_part ? split.lse : a.lse;
  combine_warps<Shape>(shared, heads, num_heads, out + index * kHeadDim,
                       lse ? lse + index : nullptr);
}

/// Runs the kernel on the items of a launch's plan; launch_merge() is left to the caller.
///
/// \param l           shapes, sequences and stream of the launch
/// \param make_arrays make_arrays(T{}) gives the Arrays<T> of the launch
/// \throws std::runtime_error when the launch fails
template <template <typename> class Arrays, typename MakeArrays>
void launch_grouped_kernel(const AttentionLaunch& l, const MakeArrays& make_arrays) {
  // The largest score is looked for before the scale is on.
  require(l.shape.scale > 0.0f, "the grouped kernel needs a scale above 0");
  with_kernel_types(l.shape, [&](auto type, auto dim) {
    using T = decltype(type);
    constexpr int kHeadDim = dim.value;
    const auto run = [&](auto tiles) {
      using Shape = GroupedShape<T, kHeadDim, tiles.value>;
      constexpr std::size_t kBytes = sizeof(typename Shape::Shared);
      static_assert(kBytes ==
                    dynamic_shared_bytes("grouped_kernel", kHeadDim, sizeof(T), tiles.value));
      const auto kernel = grouped_kernel<T, kHeadDim, tiles.value, Arrays>;
      check_cuda(allow_shared(kernel, kBytes), "shared memory of grouped_kernel");
      Arrays<T> a = make_arrays(type);
      a.scale *= kLog2E;  // here, since a parameter of the kernel takes no register
      launch(kernel, l.split.num_items, Shape::kThreads, kBytes, l.stream, a, l.split);
      check_cuda(cudaGetLastError(), "grouped_kernel launch");
    };
    require(l.split.heads_per_item <= grouped_most_heads(kHeadDim),
            "an item has more heads than the grouped kernel takes");
    if (l.split.heads_per_item <= 16) return run(Int<1>{});
    if constexpr (grouped_most_heads(kHeadDim) > 16) run(Int<2>{});
  });
}

}  // namespace kv::KV_BACKEND
