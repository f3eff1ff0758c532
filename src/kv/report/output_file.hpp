// Result files: CSV text, and writing a file so that nobody ever sees half of it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kv {

/// One CSV record with its line break. Cells that hold a comma, a quote or a line break are quoted.
/// Source: RFC 4180 (line breaks are "\n").
std::string csv_row(const std::vector<std::string>& cells);

/// The cells of one record, quotes undone: what csv_row() was given. Records span no lines here.
/// \param line without its line break
std::vector<std::string> csv_cells(std::string_view line);

/// Writes a temporary file beside `path` and renames it, so that `path` holds either the old
/// content or all of the new. A link is followed; a device such as /dev/stdout is written to
/// directly.
///
/// \param option the option that named the path, for the message, e.g. "--json"
/// \param path   where to write
/// \param text   the whole content
/// \throws InputError naming option and path when the file cannot be written
void write_file_atomically(std::string_view option, const std::string& path, std::string_view text);

/// Finds out before a long job whether write_file_atomically() could write there, and leaves
/// nothing behind.
/// \param option, path as above
/// \throws InputError as above
void check_writable(std::string_view option, const std::string& path);

}  // namespace kv
