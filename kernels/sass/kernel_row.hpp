// Everything the report says of one kernel on one architecture.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "sass/kernel_name.hpp"
#include "sass/main_loop.hpp"
#include "sass/ptxas_log.hpp"

namespace kv::sass {

/// One line of the table. docs/kernels.md defines the figures.
struct KernelRow {
  std::string file;         ///< of the kernel's source, without folder and ending: "05_split_kv"
  int architecture = 0;     ///< e.g. 90 for sm_90
  KernelName name;          ///< with its template's arguments
  Resources resources;      ///< registers and memory
  int threads_per_cta = 0;  ///< from __launch_bounds__
  int dynamic_shared_bytes = 0;    ///< as the launch asks for it
  int resident_ctas = 0;           ///< on one SM
  double occupancy = 0.0;          ///< resident threads of those that the SM could hold
  int local_instructions = 0;      ///< loads and stores of local memory in the whole code
  std::optional<LoopCounts> loop;  ///< the main loop

  /// Bytes of global loads that are under way on one SM at most.
  std::int64_t bytes_in_flight_per_sm() const;
  /// Instructions of the main loop for one element of K or V; nothing when it loads none,
  /// or only copies.
  std::optional<double> instructions_per_element() const;
  /// Instructions of the main loop for one of the tensor cores; nothing when it has none.
  std::optional<double> instructions_per_mma() const;
};

/// \param cubin NAME.cubin, with NAME.txt beside it
/// \return one row a kernel, in order of name
/// \throws InputError when a file is missing or damaged, or a kernel has no __launch_bounds__
std::vector<KernelRow> read_rows(const std::filesystem::path& cubin);

}  // namespace kv::sass
