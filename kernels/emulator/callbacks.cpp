// The functions that a compiler calls before each memory access of code built with
// -fsanitize=thread. The checked kernels are built so, and linked with these in the place of the
// sanitizer's runtime.
//
// Interface: compiler-rt's tsan_interface.h; the names and signatures are the compilers'.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "checker.hpp"
#include "scheduler.hpp"

namespace kv::emulator {
namespace {

void on_access(const void* address, std::uint32_t bytes, AccessKind kind, bool aligned,
               const void* pc) {
  Worker* worker = Worker::running();
  if (!worker) return;  // host code of a kernel file
  Checker* checker = worker->checker();
  if (!checker) return;  // an inline function that a fast kernel shares with a checked one
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  if (worker->stack_of(worker->thread()).contains(begin)) return;  // the usual case, fast
  RuntimeScope scope(*worker, Where(pc));
  checker->access(*worker, worker->thread(), {begin, bytes, kind, aligned, Where(pc)});
}

// A copy of a structure: as a GPU would do it, in accesses of at most 16 bytes.
void on_range(const void* address, std::size_t bytes, AccessKind kind, const void* pc) {
  const auto* byte = static_cast<const unsigned char*>(address);
  while (bytes > 0) {
    std::uint32_t step = 16;
    while (step > bytes || reinterpret_cast<std::uintptr_t>(byte) % step != 0) step /= 2;
    on_access(byte, step, kind, true, pc);
    byte += step;
    bytes -= step;
  }
}

}  // namespace
}  // namespace kv::emulator

using kv::emulator::AccessKind;
using kv::emulator::on_access;
using kv::emulator::on_range;

#define KV_TSAN_ACCESS(name, bytes, kind, aligned)                                     \
  void name(void* address) {                                                           \
    on_access(address, bytes, AccessKind::kind, aligned, __builtin_return_address(0)); \
  }
#define KV_TSAN_SIZE(bytes)                                                 \
  KV_TSAN_ACCESS(__tsan_read##bytes, bytes, read, true)                     \
  KV_TSAN_ACCESS(__tsan_write##bytes, bytes, write, true)                   \
  KV_TSAN_ACCESS(__tsan_unaligned_read##bytes, bytes, read, false)          \
  KV_TSAN_ACCESS(__tsan_unaligned_write##bytes, bytes, write, false)        \
  KV_TSAN_ACCESS(__tsan_volatile_read##bytes, bytes, read, true)            \
  KV_TSAN_ACCESS(__tsan_volatile_write##bytes, bytes, write, true)          \
  KV_TSAN_ACCESS(__tsan_unaligned_volatile_read##bytes, bytes, read, false) \
  KV_TSAN_ACCESS(__tsan_unaligned_volatile_write##bytes, bytes, write, false)

extern "C" {
KV_TSAN_SIZE(1)
KV_TSAN_SIZE(2)
KV_TSAN_SIZE(4)
KV_TSAN_SIZE(8)
KV_TSAN_SIZE(16)

void __tsan_read_range(void* address, std::size_t bytes) {
  on_range(address, bytes, AccessKind::read, __builtin_return_address(0));
}
void __tsan_write_range(void* address, std::size_t bytes) {
  on_range(address, bytes, AccessKind::write, __builtin_return_address(0));
}
void* __tsan_memcpy(void* to, const void* from, std::size_t bytes) {
  on_range(from, bytes, AccessKind::read, __builtin_return_address(0));
  on_range(to, bytes, AccessKind::write, __builtin_return_address(0));
  return std::memcpy(to, from, bytes);
}
void* __tsan_memmove(void* to, const void* from, std::size_t bytes) {
  on_range(from, bytes, AccessKind::read, __builtin_return_address(0));
  on_range(to, bytes, AccessKind::write, __builtin_return_address(0));
  return std::memmove(to, from, bytes);
}
void* __tsan_memset(void* to, int value, std::size_t bytes) {
  on_range(to, bytes, AccessKind::write, __builtin_return_address(0));
  return std::memset(to, value, bytes);
}
// g++ announces the guard of a function's static variable, in host code of a kernel file.
char __tsan_atomic8_load(const volatile char* address, int) {
  return __atomic_load_n(address, __ATOMIC_ACQUIRE);
}
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_read(void**) {}
void __tsan_vptr_update(void**, void*) {}
}

// A second set of callbacks: an index past the end of an array whose length the compiler knows
// (-fsanitize=bounds). It sees what addresses cannot tell: that tile[40] of a tile of 32 is the
// next array. A build with the sanitizer's own runtime has these already.
// Interface: compiler-rt's ubsan_handlers.h.
#ifndef KV_SANITIZER_RUNTIME
namespace kv::emulator {
namespace {

struct Type {
  std::uint16_t kind;
  std::uint16_t info;  // of an integer: 2 * log2(bits), + 1 when signed
  char name[1];        // longer: "'float[32]'"
};

struct OutOfBounds {
  const char* file;
  std::uint32_t line;
  std::uint32_t column;
  const Type* array;
  const Type* index;
};

long long signed_index(const Type& type, std::uintptr_t value) {
  const int bits = 1 << (type.info >> 1);
  const unsigned unused = (type.info & 1) && bits < 64 ? static_cast<unsigned>(64 - bits) : 0;
  return static_cast<std::int64_t>(value << unused) >> unused;
}

[[noreturn]] void on_bad_index(const OutOfBounds& data, std::uintptr_t index) {
  const Site site{data.file, static_cast<int>(data.line)};
  Worker* worker = Worker::running();
  if (!worker) {  // in host code of a kernel file
    std::fprintf(stderr, "%s:%d: index out of bounds of %s\n", site.file, site.line,
                 data.array->name);
    std::abort();
  }
  RuntimeScope scope(*worker, Where(site));
  worker->fail(Fault::out_of_bounds, worker->thread().number, Where(site),
               Text("index %lld is out of bounds of an array of type %s",
                    signed_index(*data.index, index), data.array->name));
}

}  // namespace
}  // namespace kv::emulator

extern "C" {
void __ubsan_handle_out_of_bounds(void* data, std::uintptr_t index) {
  kv::emulator::on_bad_index(*static_cast<kv::emulator::OutOfBounds*>(data), index);
}
void __ubsan_handle_out_of_bounds_abort(void* data, std::uintptr_t index) {
  kv::emulator::on_bad_index(*static_cast<kv::emulator::OutOfBounds*>(data), index);
}
}
#endif
