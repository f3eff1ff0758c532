// Aligned tables for the terminal, and numbers as people read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kv {

/// 1234567 -> "1,234,567".
std::string with_thousands(std::int64_t value);

/// A fraction with the digits that matter: 1.074, 10.74, 107.4, 1,074. Infinity and NaN in words.
std::string four_digits(double value);

/// Bytes in units of 10^9 (10^6, 10^3): "1.074 GB".
std::string decimal_bytes(std::int64_t bytes);

/// Bytes in units of 2^30 (2^20, 2^10): "1.000 GiB".
std::string binary_bytes(std::int64_t bytes);

/// Both, because the two are often confused: "1.074 GB (1.000 GiB)"; below 1000 just "512 B".
std::string format_bytes(std::int64_t bytes);

/// A time in the unit that fits: "12.50 µs", "7.045 ms", "17.30 s".
std::string duration(double seconds);

/// At which edge of its column a cell's text is.
enum class Align {
  left,   ///< padding behind the text: for words
  right,  ///< padding before the text: for numbers
};

/// A table whose columns are as wide as their widest cell.
///
/// Control characters in a cell (a line break, say) are shown as spaces and invalid UTF-8 as
/// U+FFFD, so that a cell can never break the table.
class Table {
 public:
  /// \param headers one a column
  /// \param aligns  one a column; columns without one: the first left, all others right
  explicit Table(std::vector<std::string> headers, std::vector<Align> aligns = {});

  /// \param cells one a column
  /// \throws std::invalid_argument on any other number of cells
  void add_row(std::vector<std::string> cells);

  /// Header, rule and rows, each with a line break at its end and `indent` spaces before it.
  std::string str(int indent = 0) const;

 private:
  std::vector<std::string> headers_;
  std::vector<Align> aligns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace kv
