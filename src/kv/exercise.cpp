#include "kv/exercise.hpp"

#include <cstdio>
#include <stdexcept>

namespace kv {

void not_done(const char* file, int line) {
  // No std::string: a checked kernel brings its own copies of inline functions, which the emulator
  // watches.
  char text[512];
  std::snprintf(text, sizeof(text), "not done yet: %s:%d", file, line);
  throw std::logic_error(text);
}

}  // namespace kv
