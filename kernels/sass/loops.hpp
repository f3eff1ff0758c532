// The loops of a kernel, found in its machine code.
#pragma once

#include <vector>

#include "sass/cubin.hpp"

namespace kv::sass {

/// A natural loop: what can reach a jump back to `header` without passing it, where every path to
/// the jump went through `header`. Blocks that the compiler moved out of line belong to it.
struct Loop {
  int header = 0;                 ///< number of the first instruction
  std::vector<int> instructions;  ///< numbers in order of address, header included
};

/// \return all loops; those that jump back to the same header are one
/// \throws std::invalid_argument when a branch leads out of the code: its encoding is unknown
std::vector<Loop> find_loops(const std::vector<Word>& code, int architecture);

}  // namespace kv::sass
