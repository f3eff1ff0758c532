// Two chapters next to each other, step by step.
#pragma once

#include <iosfwd>
#include <string>

#include "kv/agreement.hpp"
#include "kv/report/options.hpp"

namespace kv {

/// Prints, for positions spread over the run, what a token cost each of two chapters: rows, bytes
/// of K and V read and written, time; and draws time per token against position in the terminal
/// and, where --svg asks for it, into a file.
///
/// \param agreement the compared steps
/// \param now       short name of this chapter, e.g. "ch 2"
/// \param before    short name of the previous one
/// \param options   --svg is read
/// \param out       receives table and plot
void show_side_by_side(const Agreement& agreement, const std::string& now,
                       const std::string& before, const ChapterOptions& options, std::ostream& out);

}  // namespace kv
