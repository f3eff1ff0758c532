// Running the cases on a device and taking their times.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "device.hpp"
#include "gpu/cases.hpp"

namespace kv_bench {

/// Several times of the same work, in milliseconds.
struct Timing {
  double median_ms = 0.0;
  double least_ms = 0.0;
  double most_ms = 0.0;
  int repetitions = 0;
};

/// \param times_ms at least one; of an even number the median is the mean of the middle two
Timing summarize(std::vector<double> times_ms);

/// How long to measure.
struct Effort {
  double warm_up_ms = 100.0;  ///< at least one run, then until so much time went by
  double budget_ms = 1500.0;  ///< repetitions stop after so much time ...
  int least = 5;              ///< ... but not before so many
  int most = 50;

  static Effort full() { return {}; }
  static Effort quick() { return {30.0, 300.0, 3, 20}; }
  static Effort once() { return {0.0, 0.0, 1, 1}; }
};

/// Warms up, then measures single runs by the device's own clock.
Timing measure(kv::Device& device, const Effort& effort, const std::function<void()>& work);

/// What the device does at best.
struct Limits {
  std::int64_t copy_bytes = 0;  ///< of one copy, read and written
  Timing copy;                  ///< by a kernel
  Timing runtime_copy;          ///< by the CUDA runtime
  double matrix_flops = 0.0;    ///< of one run
  kv::DType matrix_dtype = kv::DType::bf16;
  Timing matrix;

  /// Bytes a second of the faster copy, in its median.
  double copy_rate() const;
  /// Operations a second.
  double matrix_rate() const;
};

/// The sizes of what measure_limits() runs.
struct LimitSizes {
  std::int64_t copied_bytes;  ///< halved until the device has memory for two such arrays
  int ctas_per_multiprocessor;
  int rounds;

  static LimitSizes gpu() { return {std::int64_t{2} << 30, 4, 1 << 15}; }
  static LimitSizes tiny() { return {std::int64_t{32} << 10, 1, 2}; }
};

/// Measures the copy and the matrix products; those in fp16 where the device has no bf16.
Limits measure_limits(kv::Device& device, const LimitSizes& sizes, const Effort& effort);

/// What came of a case.
struct Result {
  Case what;
  std::string skipped;  ///< why it was not run; empty when it was
  Timing timing;
  std::int64_t workspace_bytes = 0;
  double sample_error = 0.0;  ///< largest difference of some output rows from the oracle
  double sample_bound = 0.0;  ///< allowed: what the arithmetic of the step may lose

  bool ran() const { return skipped.empty(); }
  /// Not the whole test that tests/kernels/ is: no time of a kernel that computes something else.
  bool is_right() const { return sample_error <= sample_bound; }
};

/// Runs a case: fills the arrays with bench_value(), checks some rows, measures. A case for which
/// the device has no kernel or not enough memory is skipped.
///
/// \throws std::runtime_error when a kernel fails
Result run_case(kv::Device& device, const Case& what, const Effort& effort);

}  // namespace kv_bench
