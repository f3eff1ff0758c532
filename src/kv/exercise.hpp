// What makes a function of the course an exercise.
#pragma once

/// Marks the definition of a function that is an exercise. The linker takes a reader's own
/// definition of it, where there is one; else this one stands in.
#define KV_EXERCISE [[gnu::weak]]

/// What a starter has in the place of the code to be written.
#define KV_TODO() ::kv::not_done(__FILE__, __LINE__)

namespace kv {

/// Throws std::logic_error "not done yet: file:line". In a kernel it ends the program with that
/// line.
[[noreturn]] void not_done(const char* file, int line);

}  // namespace kv
