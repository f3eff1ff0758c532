// Memory traffic of kernels, counted as a GPU's memory system would see it.
//
// A request is one instruction of one warp. A global request needs one 32-byte sector for each
// that any of its lanes touches: 4 for 32 neighbouring floats, 32 for a stride of 8 floats or more.
// A shared request needs one pass for each different 4-byte word that its lanes want from the same
// of the 32 banks; lanes with 8 (16) bytes go in 2 (4) groups. Caches are not modelled.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <map>
#include <string>
#include <vector>

#include "report.hpp"

namespace kv::emulator {

/// The kinds of request that are counted apart.
enum class Traffic {
  global_load,   ///< in sectors of 32 bytes
  global_store,  ///< in sectors of 32 bytes
  shared_load,   ///< in passes over the banks
  shared_store,  ///< in passes over the banks
};
/// Kinds of Traffic.
inline constexpr int kNumTraffic = 4;

/// Sums over requests.
struct Tally {
  std::uint64_t requests = 0;  ///< instructions of warps
  std::uint64_t bytes = 0;     ///< asked for by the lanes
  std::uint64_t units = 0;     ///< sectors of 32 bytes, or passes over the banks
  std::uint64_t ideal = 0;     ///< the units that the same bytes need at best

  /// Adds sum by sum.
  void add(const Tally& other);
};

/// The tally of one source line.
struct LineTally {
  Place place;                             ///< file and line
  Traffic traffic = Traffic::global_load;  ///< kind of request
  Tally tally;                             ///< of that line and kind
};

/// The traffic of a launch, or of all launches of a kernel.
struct Counters {
  Tally totals[kNumTraffic];     ///< by Traffic
  std::vector<LineTally> lines;  ///< ordered by file, line and kind
  std::uint64_t launches = 0;    ///< how many

  /// The total of a kind.
  const Tally& of(Traffic traffic) const { return totals[static_cast<int>(traffic)]; }

  /// Bytes that cross to global memory without caches: 32 a sector, loads and stores.
  std::uint64_t global_bytes() const;

  /// Sectors per global request; `traffic` is a global kind. 0 without requests.
  double sectors_per_request(Traffic traffic) const;

  /// Extra passes over the banks, loads and stores.
  std::uint64_t bank_conflicts() const;

  /// Adds launches, totals and lines.
  void add(const Counters& other);
};

/// Sums over the launches of each kernel since the last reset; only the checked build counts.
const std::map<std::string, Counters>& counters_by_kernel();
/// Forgets all counts.
void reset_counters();

/// One line a source line: requests, bytes, sectors or passes per request, and the ideal.
void print(std::ostream& out, const std::string& kernel, const Counters& counters);

}  // namespace kv::emulator
