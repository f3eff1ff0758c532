// The policies of reservation.hpp side by side: table, what each number comes from, plots, files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kv/cost/reservation.hpp"
#include "kv/report/json.hpp"
#include "kv/report/plot.hpp"

namespace kv {

/// One trace in one memory under every policy.
struct ReservationStudy {
  std::vector<Request> trace;                 ///< in the order of arrival
  std::string trace_name;                     ///< for the report
  std::int64_t capacity = 0;                  ///< tokens
  std::int64_t max_len = 0;                   ///< tokens
  Placement placement = Placement::buddies;   ///< of contiguous reservations
  std::vector<ReservationResult> contiguous;  ///< max length, power of two, true length
  std::vector<ReservationResult> paged;       ///< blocks of 1, 2, 4, ..., 256
};

/// Largest block of the study; the smallest is 1, and each is twice the one before.
inline constexpr std::int64_t kLargestBlock = 256;

/// Runs every policy.
/// \throws InputError as simulate()
ReservationStudy study_reservations(std::vector<Request> trace, std::string trace_name,
                                    std::int64_t capacity, std::int64_t max_len,
                                    Placement placement);

/// What the requests of a trace hold and reserve, in the mean over the steps of their lives: the
/// numbers that a share of waste comes from. A request counts once for each of its output tokens.
struct LifeMeans {
  double held = 0.0;      ///< tokens in its cache
  double final = 0.0;     ///< tokens that it will come to
  double reserved = 0.0;  ///< tokens set aside, before the allocator rounds up
};
/// \param trace   every request counts alike
/// \param reserve a contiguous policy
/// \param max_len tokens; no reservation is longer
LifeMeans life_means(const std::vector<Request>& trace, Reserve reserve, std::int64_t max_len);

/// The table, and a sentence on where each number comes from.
std::string reservation_text(const ReservationStudy& study);
/// The same facts; shares are fractions of the memory.
Json reservation_json(const ReservationStudy& study);
/// One record a policy.
std::string reservation_csv(const ReservationStudy& study);
/// Waste by block size, and below it what the block tables cost.
std::vector<Plot> reservation_plots(const ReservationStudy& study);

}  // namespace kv
