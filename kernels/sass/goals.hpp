// What the compiler must have made of the kernels: a table, and its test.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sass/kernel_row.hpp"

namespace kv::sass {

/// A figure of a row that a goal bounds.
enum class Figure {
  local_memory,              ///< bytes of stack and spills, and instructions that use them
  narrow_loads,              ///< global loads of the main loop that are not 16 bytes wide
  instructions_per_element,  ///< of K or V
  instructions_per_mma,      ///< of the main loop, for one of the tensor cores
  bytes_in_flight_per_sm,    ///< of global loads, at most
};

/// One line of the table of goals.
struct Goal {
  std::string_view file;       ///< source of the kernels; empty: all
  std::string_view kernel;     ///< base name; empty: all of the file with a main loop
  int min_architecture;        ///< from which on
  int element_bytes;           ///< of K and V; 0: any
  std::vector<int> head_dims;  ///< empty: any
  Figure figure;               ///< what is compared
  bool at_least;               ///< else at most
  double bound;                ///< with what
  std::string_view reason;     ///< why this bound
  int head_tiles = 0;          ///< of KernelName; 0: any
};

/// The goals of the course.
std::span<const Goal> goals();

/// One goal held against one row.
struct Verdict {
  bool met = true;   ///< whether the goal is reached
  std::string text;  ///< "05_split_kv, split_kv_kernel<f16, 64>, sm_90: 7.2 ..., at most 6"
};

/// Holds goals against rows. A goal that no row falls under is not met: a kernel may have a new
/// name.
///
/// \param rows  of all files and architectures
/// \param goals each with the kernels that it is for
std::vector<Verdict> check_goals(std::span<const KernelRow> rows, std::span<const Goal> goals);

}  // namespace kv::sass
