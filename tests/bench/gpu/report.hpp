// What the GPU benchmark prints and writes. Times of the emulator are a CPU's: they never appear as
// rates, shares or goals met.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "device.hpp"
#include "gpu/measure.hpp"
#include "kv/report/json.hpp"

namespace kv_bench {

/// Where, when and how it was measured.
struct Circumstances {
  std::string device;  ///< as the device describes itself
  kv::Backend backend = kv::Backend::gpu;
  int compute_capability = 0;  ///< 10 * major + minor
  int num_multiprocessors = 0;
  std::string driver;  ///< as nvidia-smi says, or empty
  std::string date;    ///< UTC, e.g. 2026-11-30T01:40:00Z
  std::string command;

  bool is_gpu() const { return backend == kv::Backend::gpu; }
};

/// The limits before and after the cases: the GPU's clock may have changed in between.
struct LimitPair {
  Limits before, after;

  double copy_rate() const;    ///< the higher one: shares are not flattered
  double matrix_rate() const;  ///< the same
};

/// A result beside what the machine can do.
struct Rating {
  double rate = 0.0;   ///< a second: bytes of decode, operations of prefill
  double share = 0.0;  ///< of the copy's rate, or of the matrix products'
  /// What the case takes when both memory and arithmetic run at their limit.
  double floor_ms = 0.0;
  std::optional<bool>
      goal_met;  ///< empty without a goal, or when what it compares with did not run
};

/// \param all the results so far, for a goal that compares two cases
Rating rate(const Result& result, const LimitPair& limits, std::span<const Result> all);

/// Limits, cases and goals as text.
std::string to_text(const Circumstances& circumstances, const LimitPair& limits,
                    std::span<const Result> results);

/// The same and more as JSON; torch_attention.py reads the shapes from it.
kv::Json to_json(const Circumstances& circumstances, const LimitPair& limits,
                 std::span<const Result> results);

}  // namespace kv_bench
