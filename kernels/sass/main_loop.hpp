// What the loop costs in which a kernel spends its time. docs/kernels.md defines every figure.
#pragma once

#include <optional>

#include "sass/loops.hpp"

namespace kv::sass {

/// Counts of one pass of a loop, for one thread. Those behind a branch count too.
struct LoopCounts {
  int instructions = 0;         ///< without NOP
  int mma = 0;                  ///< HMMA: of the tensor cores
  int fma = 0;                  ///< FFMA
  int global_loads = 0;         ///< LDG and LDGSTS
  int wide_global_loads = 0;    ///< those of 16 bytes
  int wide_load_bytes = 0;      ///< that they move
  int bytes_in_flight = 0;      ///< of global loads: the most that are under way at once
  bool has_inner_loop = false;  ///< then a pass runs more than what is counted
};

/// Finds the main loop: the innermost loop with HMMA; without any, with global loads of 16 bytes;
/// without any, with FFMA. Among several, the one with the most of them, then the shortest.
///
/// \return nothing when the kernel has no such loop
/// \throws std::invalid_argument as find_loops()
std::optional<LoopCounts> count_main_loop(const std::vector<Word>& code, int architecture);

/// The most bytes of global loads that one thread has under way while instructions run over and
/// over.
///
/// A load into a register is under way until an instruction waits for its scoreboard; a cp.async
/// until a wait retires its group.
int bytes_in_flight(const std::vector<Word>& code, const std::vector<int>& instructions,
                    int architecture);

}  // namespace kv::sass
