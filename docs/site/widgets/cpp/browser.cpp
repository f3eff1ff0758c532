// What WebAssembly lacks: exceptions. One that is thrown ends the run here, with its words on
// stderr; the page shows them and starts anew (widgets.js).
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <typeinfo>

extern "C" {

void* __cxa_allocate_exception(std::size_t size) noexcept { return std::malloc(size); }
void __cxa_free_exception(void* object) noexcept { std::free(object); }

// Everything that the course throws is a std::exception, its only base.
[[noreturn]] void __cxa_throw(void* object, std::type_info*, void (*)(void*)) {
  std::fputs(static_cast<std::exception*>(object)->what(), stderr);
  std::abort();
}

}  // extern "C"
