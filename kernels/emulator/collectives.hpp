// Barriers, shuffles and votes: the device functions in which threads wait for each other.
#pragma once

#include <cstdint>
#include <cstring>

#include "site.hpp"

namespace kv::emulator {

/// What a CTA barrier makes of the threads' predicates.
enum class Barrier {
  plain,  ///< __syncthreads: no predicate
  count,  ///< __syncthreads_count: how many are not 0
  all,    ///< __syncthreads_and: whether none is 0
  any,    ///< __syncthreads_or: whether one is not 0
};

/// The operations in which the lanes of a warp meet.
enum class Collective {
  sync,           ///< __syncwarp
  shuffle_index,  ///< __shfl_sync: from a given lane of the segment
  shuffle_up,     ///< __shfl_up_sync: from a lane with a lower number
  shuffle_down,   ///< __shfl_down_sync: from a lane with a higher number
  shuffle_xor,    ///< __shfl_xor_sync: from the lane whose number differs in the mask's bits
  vote_any,       ///< __any_sync
  vote_all,       ///< __all_sync
  ballot,         ///< __ballot_sync: bit i is the vote of lane i
  load_matrix,    ///< ldmatrix: 2 or 4 tiles of 8 x 8 16-bit elements from shared memory
  multiply_bf16,  ///< mma.sync.m16n8k16, bf16 operands, fp32 sums
  multiply_f16,   ///< mma.sync.m16n8k16, fp16 operands, fp32 sums
};

/// Operands of a shuffle or a vote.
struct LaneValue {
  std::uint64_t bits = 0;  ///< the value, or the predicate of a vote
  int argument = 0;        ///< source lane, distance or lane mask
  int width = 32;          ///< lanes of a segment
};

/// Waits until every thread of the CTA is in a barrier at this place.
/// \return the combined predicate; 0 for a plain barrier
int cta_barrier(Barrier barrier, int predicate, Site site);

/// Waits until every lane of `mask` that has not returned is in the same operation.
///
/// \param operation shuffle, vote, reduction, matrix instruction
/// \param mask      bit i: lane i takes part; must have this lane
/// \param in,out    operands and result of this lane; their type belongs to the operation
/// \param site      the line of the kernel
void warp_collective(Collective operation, unsigned mask, const void* in, void* out, Site site);

/// A shuffle or a vote of any type of up to 8 bytes.
///
/// \param operation which
/// \param mask      bit i: lane i takes part; must have this lane
/// \param value     of this lane
/// \param argument  of a shuffle: the lane, the distance or the mask of the exclusive or
/// \param width     of a shuffle: lanes of a segment, a power of two up to 32
/// \param site      the line of the kernel
template <typename T>
T exchange(Collective operation, unsigned mask, T value, int argument, int width, Site site) {
  static_assert(sizeof(T) <= 8, "a shuffle moves at most 8 bytes a lane");
  LaneValue in{0, argument, width};
  std::memcpy(&in.bits, &value, sizeof(T));
  std::uint64_t out = 0;
  warp_collective(operation, mask, &in, &out, site);
  T result;
  std::memcpy(&result, &out, sizeof(T));
  return result;
}

}  // namespace kv::emulator

// Each function below takes its caller's position through default arguments. CUDA's own names are
// documented there.
/// \cond
#define KV_EMULATOR_HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()

inline void __syncthreads(KV_EMULATOR_HERE) {
  kv::emulator::cta_barrier(kv::emulator::Barrier::plain, 0, {file, line});
}
inline int __syncthreads_count(int predicate, KV_EMULATOR_HERE) {
  return kv::emulator::cta_barrier(kv::emulator::Barrier::count, predicate, {file, line});
}
inline int __syncthreads_and(int predicate, KV_EMULATOR_HERE) {
  return kv::emulator::cta_barrier(kv::emulator::Barrier::all, predicate, {file, line});
}
inline int __syncthreads_or(int predicate, KV_EMULATOR_HERE) {
  return kv::emulator::cta_barrier(kv::emulator::Barrier::any, predicate, {file, line});
}
inline void __syncwarp(unsigned mask = 0xffffffffu, KV_EMULATOR_HERE) {
  kv::emulator::warp_collective(kv::emulator::Collective::sync, mask, nullptr, nullptr,
                                {file, line});
}

template <typename T>
T __shfl_sync(unsigned mask, T value, int lane, int width = 32, KV_EMULATOR_HERE) {
  return kv::emulator::exchange(kv::emulator::Collective::shuffle_index, mask, value, lane, width,
                                {file, line});
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, KV_EMULATOR_HERE) {
  return kv::emulator::exchange(kv::emulator::Collective::shuffle_up, mask, value,
                                static_cast<int>(delta), width, {file, line});
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, KV_EMULATOR_HERE) {
  return kv::emulator::exchange(kv::emulator::Collective::shuffle_down, mask, value,
                                static_cast<int>(delta), width, {file, line});
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32, KV_EMULATOR_HERE) {
  return kv::emulator::exchange(kv::emulator::Collective::shuffle_xor, mask, value, lane_mask,
                                width, {file, line});
}

inline int __any_sync(unsigned mask, int predicate, KV_EMULATOR_HERE) {
  return static_cast<int>(kv::emulator::exchange<std::int64_t>(
      kv::emulator::Collective::vote_any, mask, predicate, 0, 32, {file, line}));
}
inline int __all_sync(unsigned mask, int predicate, KV_EMULATOR_HERE) {
  return static_cast<int>(kv::emulator::exchange<std::int64_t>(
      kv::emulator::Collective::vote_all, mask, predicate, 0, 32, {file, line}));
}
inline unsigned __ballot_sync(unsigned mask, int predicate, KV_EMULATOR_HERE) {
  return static_cast<unsigned>(kv::emulator::exchange<std::int64_t>(
      kv::emulator::Collective::ballot, mask, predicate, 0, 32, {file, line}));
}
/// \endcond
