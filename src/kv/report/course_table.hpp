// The table that the whole course ends with: one line a chapter, each held against the one before.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace kv {

/// A chapter's line. What a chapter does not have stays empty.
struct CourseRow {
  std::string chapter;                       ///< e.g. "02_kv_cache"
  std::string change;                        ///< what this chapter does differently, in a few words
  std::optional<std::int64_t> tokens_equal;  ///< compared steps with the same likeliest token ...
  std::int64_t num_compared = 0;             ///< ... out of so many
  std::optional<double> max_logit_difference;           ///< to the chapter before
  std::optional<std::int64_t> rows;                     ///< through the model
  std::optional<std::int64_t> kv_bytes_held;            ///< at the end of the run
  std::optional<std::int64_t> kv_bytes_read_per_token;  ///< of output, over the whole run
  std::optional<double> ttft_ms;                        ///< time to first token
  std::optional<double> tpot_ms;                        ///< time per output token
};

/// Finds out before a run whether add_to_course_table() could put a line into a file.
/// \param option, path as below
/// \throws InputError as below
void check_course_table(std::string_view option, const std::string& path);

/// Puts a chapter's line into a CSV file, in the place of its old one or at the end.
///
/// \param option the option that named the file, for messages
/// \param path   made when it is not there
/// \param row    found again by its chapter
/// \throws InputError when the file holds something else, or cannot be written
void add_to_course_table(std::string_view option, const std::string& path, const CourseRow& row);

/// \return the table in such a file, for a terminal
/// \throws InputError when there is no such file, or it holds something else
std::string course_table(const std::string& path);

}  // namespace kv
