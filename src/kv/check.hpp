// The three kinds of error.
//
// Misuse by the programmer throws std::invalid_argument with file and line (require).
// Bad input from outside (a file, an option, a prompt) throws InputError: one line for a person,
//   naming the file, tensor or option and what to do. Programs print it and exit with status 2.
// Exhaustion (the cache is full, the pool is empty) is a normal answer and is returned, not thrown.
//
// The allocator of the paged cache also compiles without exceptions: there misuse prints its line
// and aborts. (The site's pages do not need that: docs/site/widgets/cpp/browser.cpp.)
#pragma once

#include <cstdio>
#include <cstdlib>
#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>

/// The KV cache course: everything that runs on the host.
namespace kv {

/// What the user gave cannot be used; `what()` is one line that says what and what to do.
class InputError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Checks a precondition of an interface.
///
/// \param ok    the condition
/// \param what  what must hold, in words
/// \param where the caller's position, filled in by the compiler
/// \throws std::invalid_argument "file:line: what" when `ok` is false
inline void require(bool ok, std::string_view what,
                    std::source_location where = std::source_location::current()) {
  if (ok) return;
  const std::string line = std::string(where.file_name()) + ":" + std::to_string(where.line()) +
                           ": " + std::string(what);
#if defined(__cpp_exceptions) || defined(__CUDACC__)
  throw std::invalid_argument(line);
#else
  std::fprintf(stderr, "%s\n", line.c_str());
  std::abort();
#endif
}

}  // namespace kv
