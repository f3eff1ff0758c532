// UTF-8, one step at a time: what the next bytes are, and text made valid.
//
// Source: The Unicode Standard, table 3-7 (well-formed byte sequences) and its recommendation to
// replace each maximal subpart of an ill-formed sequence by one U+FFFD.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace kv {

/// The UTF-8 bytes of U+FFFD, which stands for bytes that are no character.
inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

/// What the bytes at the front of a text are.
struct Utf8Step {
  /// What has been found.
  enum class Kind {
    valid,      ///< one whole character
    invalid,    ///< bytes that no further byte can turn into a character
    incomplete  ///< the text ends inside a character that is well-formed so far
  };
  Kind kind = Kind::invalid;  ///< what has been found
  std::size_t num_bytes = 0;  ///< 1 to 4; of an invalid step the maximal subpart
};

/// Looks at the front of `text`.
/// \param text at least one byte
Utf8Step utf8_step(std::string_view text);

/// Copies `text`, each maximal ill-formed part (a cut tail too) replaced by one U+FFFD.
std::string to_valid_utf8(std::string_view text);

}  // namespace kv
