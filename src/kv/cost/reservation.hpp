// What a memory for KV caches really holds, by the way in which requests reserve it.
//
// A request's cache grows by one token a step, and nobody knows in advance how far. Whoever wants
// it in one piece must reserve that piece before the first token; whoever hands out blocks reserves
// as it goes. This simulator runs a trace through either and says, for each step, what each unit of
// memory is doing.
//
// Source: Kwon et al. 2023, section 3.1 (the three kinds of waste) and section 6.1 (the policies).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kv/cost/request_trace.hpp"

namespace kv {

/// How much a request reserves.
enum class Reserve {
  max_length,    ///< the most that any request may come to
  power_of_two,  ///< its prompt, and its true output rounded up to a power of two
  true_length,   ///< exactly what it will hold: an oracle, which no server has
  blocks         ///< blocks, one after the other, as tokens come
};

/// Where a contiguous reservation is put.
enum class Placement {
  buddies,    ///< sizes rounded up to a power of two, as Buddies does
  first_fit,  ///< the lowest hole that is large enough, as FirstFit does
};

/// A way to share out a memory.
struct ReservationPolicy {
  Reserve reserve = Reserve::max_length;     ///< how much is set aside
  Placement placement = Placement::buddies;  ///< of contiguous reservations
  std::int64_t block_size = 0;               ///< tokens of a block, for Reserve::blocks

  /// E.g. "true length" or "blocks of 16".
  std::string name() const;
  /// Whether memory is given out in blocks.
  bool is_paged() const { return reserve == Reserve::blocks; }
};

/// Tokens that a contiguous policy sets aside for a request.
/// \param reserve a contiguous policy
/// \param request its prompt and true output
/// \param max_len no reservation is longer
std::int64_t reserved_tokens(Reserve reserve, const Request& request, std::int64_t max_len);

/// What every token's place in a memory is doing. All of them together are the memory.
struct MemoryUse {
  std::int64_t used = 0;      ///< holds a token
  std::int64_t reserved = 0;  ///< will hold one before the request ends: nobody else may have it
  std::int64_t internal = 0;  ///< set aside, and never used: known only when the request has ended
  /// Never usable, as is known in advance: what the allocator adds to a reservation to make it a
  /// power of two, or what no whole block fits into.
  std::int64_t rounding = 0;
  /// Free, but the request that waits for memory fits nowhere.
  std::int64_t holes = 0;
  std::int64_t free = 0;  ///< free to whoever comes

  /// Waste that comes of the allocator.
  std::int64_t external() const { return rounding + holes; }
  /// The whole memory.
  std::int64_t total() const { return used + reserved + internal + rounding + holes + free; }
};

/// Adds what the places of a contiguous reservation are doing.
///
/// \param request  who holds the reservation
/// \param held     tokens that the request holds now
/// \param reserved places set aside for it, at least request.final_length()
/// \param size     places that the allocator took for them, at least `reserved`
/// \param use      of the whole memory; added to
void add_reservation(const Request& request, std::int64_t held, std::int64_t reserved,
                     std::int64_t size, MemoryUse& use);

/// One step, before its tokens are computed.
struct MemorySample {
  std::int64_t step = 0;         ///< from 0
  MemoryUse use;                 ///< of every token's place
  std::int64_t num_running = 0;  ///< requests that hold memory
  std::int64_t num_waiting = 0;  ///< requests that have arrived and hold none
  std::int64_t num_blocks = 0;   ///< held: entries of all block tables
};

/// Shares of a memory, each 0 to 1, in the mean of many steps.
struct MemoryShares {
  double used = 0.0;      ///< as in MemoryUse
  double reserved = 0.0;  ///< as in MemoryUse
  double internal = 0.0;  ///< as in MemoryUse
  double rounding = 0.0;  ///< as in MemoryUse
  double holes = 0.0;     ///< as in MemoryUse
  double free = 0.0;      ///< as in MemoryUse
  /// Waste that comes of the allocator.
  double external() const { return rounding + holes; }
  /// Everything that holds no token although a request waits.
  double wasted() const { return reserved + internal + rounding + holes + free; }
};

/// The result of one run. Means are over the steps in which a request waits for memory: only then
/// does it matter what memory is wasted. If none ever waits, over all steps.
struct ReservationResult {
  ReservationPolicy policy;            ///< as given
  MemoryShares shares;                 ///< what the memory was doing
  double mean_running = 0.0;           ///< requests that fit at once
  std::int64_t most_running = 0;       ///< at once
  double mean_blocks = 0.0;            ///< entries of all block tables
  std::int64_t num_steps = 0;          ///< of the whole run
  std::int64_t num_steps_waiting = 0;  ///< of them, with a request that waits for memory
  /// Requests that gave their blocks back to an older one that grew; they are computed again.
  std::int64_t num_preemptions = 0;
};

/// Blocks that admission leaves alone while others run, as a share of the memory, so that those can
/// grow. Without it most admissions into a full memory end in a preemption.
inline constexpr double kKeptForGrowth = 0.01;

/// Runs a trace. In each step: who has arrived waits in line; the first in line starts as long as
/// there is room (nobody overtakes), and then holds its prompt; the step is sampled; every request
/// that runs gets one token. The last token ends it and frees all that it held, any other is
/// stored.
///
/// A request that needs a block when there is none takes the blocks of the one that started last,
/// which goes back to the head of the line with what it has generated. Source: Kwon et al. 2023,
/// section 4.5 (the latest is preempted first, and recomputed).
///
/// \param trace     in the order of arrival
/// \param policy    how they reserve
/// \param capacity  tokens that the memory holds; positive
/// \param max_len   most tokens of a request
/// \param on_sample called for every step; may be empty
/// \throws InputError naming the first request that is longer than max_len, or that would not fit
///         into an empty memory
ReservationResult simulate(std::span<const Request> trace, const ReservationPolicy& policy,
                           std::int64_t capacity, std::int64_t max_len,
                           const std::function<void(const MemorySample&)>& on_sample = {});

}  // namespace kv
