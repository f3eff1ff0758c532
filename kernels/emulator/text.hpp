// Short texts without heap memory.
#pragma once

#include <cstdarg>
#include <cstdio>

namespace kv::emulator {

/// What happened, in words; what is too long is cut off. It owns nothing: a thread that fails is
/// abandoned with everything on its stack, so nothing there may need a destructor.
class Text {
 public:
  Text() = default;
  /// \param format as of printf
  __attribute__((format(printf, 2, 3))) Text(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text_, sizeof(text_), format, arguments);
    va_end(arguments);
  }
  /// The words.
  const char* c_str() const { return text_; }

 private:
  char text_[320] = "";
};

/// \return "s", or nothing for 1
inline const char* plural(unsigned long count) { return count == 1 ? "" : "s"; }

}  // namespace kv::emulator
