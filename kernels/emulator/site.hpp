// Where in a kernel's source something happens.
#pragma once

namespace kv::emulator {

/// A position in a source file, as default arguments of the device functions capture it.
struct Site {
  const char* file = nullptr;  ///< as the compiler was given it
  int line = 0;                ///< from 1
};

}  // namespace kv::emulator
