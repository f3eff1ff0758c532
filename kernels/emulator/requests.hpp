// Gathers the accesses of single lanes into the requests of their warp.
//
// The lanes run one after the other, so the 32 accesses of one instruction come at different
// times. They belong together when they come from the same instruction, each lane's n-th time
// there since all lanes last met.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "counters.hpp"
#include "report.hpp"

namespace kv::emulator {

/// Tallies by instruction, not yet looked up in the line table.
using RequestCounts = std::map<std::pair<std::uint64_t, Traffic>, Tally>;

/// The open requests of all warps of the CTA that runs.
class Requests {
 public:
  /// \param num_threads of a CTA
  void begin_launch(unsigned num_threads);

  /// \param thread  of the CTA
  /// \param traffic load or store, of which memory
  /// \param address in global memory, or the offset in shared memory
  /// \param bytes   of this thread's access
  /// \param where   the instruction
  void add(unsigned thread, Traffic traffic, std::uintptr_t address, std::uint32_t bytes,
           Where where);

  /// All lanes of a warp have met: what they did before is complete.
  void close(unsigned warp);
  /// All threads of the CTA have met.
  void close_all();

  /// What has been closed so far.
  RequestCounts& counts() { return counts_; }

 private:
  struct Request {
    std::uint32_t lanes = 0;
    std::uint32_t bytes = 0;  // of each lane
    std::array<std::uintptr_t, 32> address;
  };
  struct Instruction {
    Where where;
    Traffic traffic = Traffic::global_load;
    std::array<std::uint32_t, 32> visits{};
    std::vector<Request> requests;
  };
  struct Warp {
    std::unordered_map<std::uint64_t, std::size_t> index;  // instruction -> place in the list
    std::vector<Instruction> instructions;
  };

  static Tally tally_global(const Request& request);
  static Tally tally_shared(const Request& request);

  std::vector<Warp> warps_;
  RequestCounts counts_;
};

}  // namespace kv::emulator
