// How wide a text is in a terminal.
#pragma once

#include <string_view>

namespace kv {

/// Columns that a text takes in a terminal: combining marks none, East Asian wide characters and
/// emoji two, control characters none, an invalid sequence one (it shows as U+FFFD).
int display_width(std::string_view text);

}  // namespace kv
