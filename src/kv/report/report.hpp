// The report that every chapter ends with: the same lines in the same order.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kv/agreement.hpp"
#include "kv/generate.hpp"
#include "kv/report/options.hpp"

namespace kv {

/// Everything the report says.
struct ChapterReport {
  std::string chapter;         ///< e.g. "02_kv_cache"
  std::string change;          ///< what it does differently from the one before, in a few words
  std::string model;           ///< the model's name
  std::string device = "cpu";  ///< where attention ran
  std::string_view math;       ///< plain or fast
  int threads = 1;             ///< of the linear layers
  Generation run;              ///< what was generated, and what it took
  std::int64_t kv_bytes_per_token = 0;  ///< of the state at the format that was used
  std::int64_t kv_bytes_held = 0;       ///< allocated between two steps
  /// Bytes of K and V that attention has read, where it is known better than from the run's work.
  std::optional<std::int64_t> kv_bytes_read;
  std::optional<Agreement> agreement;  ///< none in the first chapter, or when switched off
};

/// The report as text: counts first, then agreement, then times. All lines but the last three are
/// the same in every run on one machine; elsewhere sums may round in another order, so that the
/// logit difference changes a little.
std::string report_text(const ChapterReport& report);

/// The report as a JSON object: the same facts, plus text, prompt_tokens, output_tokens and
/// finish_reason.
std::string report_json(const ChapterReport& report);

/// The report as CSV: a header line and one line of values.
std::string report_csv(const ChapterReport& report);

/// Prints the report and writes the files that --json, --csv and --table ask for.
///
/// \throws std::runtime_error, after that, when the chapter does not agree with the previous one
void publish(const ChapterReport& report, const ChapterOptions& options);

}  // namespace kv
