// How the work of recomputation grows with the text: counted, next to the closed forms.
#pragma once

#include <iosfwd>

#include "kv/config.hpp"
#include "kv/generate.hpp"
#include "kv/report/options.hpp"

namespace kv {

/// Prints rows and q.k products up to some output tokens, each counted and by its closed form, and
/// what a cache would have needed, and the time so far; writes the plot that --svg asks for.
///
/// \param run     a finished run of chapter 1
/// \param config  the model's shape
/// \param options --svg is read
/// \param out     receives the table
/// \throws std::runtime_error, after that, when a count differs from its closed form
void show_growth(const Generation& run, const ModelConfig& config, const ChapterOptions& options,
                 std::ostream& out);

}  // namespace kv
