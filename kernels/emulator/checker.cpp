#include "checker.hpp"

#include <algorithm>

#include "scheduler.hpp"
#include "symbols.hpp"

namespace kv::emulator {
namespace {

const char* verb(AccessKind kind) {
  return kind == AccessKind::read    ? "reads"
         : kind == AccessKind::write ? "writes"
                                     : "updates atomically";
}

}  // namespace

// The shadow begins with the dynamic bytes; the static arrays follow, each on a fresh row of
// banks, as the compiler would align them.
void Checker::begin_launch(const Launch& launch) {
  const SharedSymbols& symbols = shared_symbols();
  block_begin_ = thread_local_block();
  block_end_ = block_begin_ + symbols.block_bytes;
  parameters_begin_ = reinterpret_cast<std::uintptr_t>(launch.parameters);
  parameters_end_ = parameters_begin_ + launch.parameter_bytes;
  dynamic_begin_ = reinterpret_cast<std::uintptr_t>(dynamic_shared(true));
  arrays_.clear();
  arrays_.push_back({"smem", dynamic_begin_, launch.shared_bytes, 0});
  std::size_t offset = kMaxSharedBytes;
  for (const SharedSymbol& symbol : symbols.arrays) {
    arrays_.push_back({symbol.name.c_str(), block_begin_ + symbol.offset, symbol.bytes, offset});
    offset += (symbol.bytes + 127) / 128 * 128;
  }
  last_global_ = {};
  shadow_.begin_launch(offset, launch.num_threads());
  requests_.begin_launch(launch.num_threads());
}

void Checker::begin_cta() { shadow_.begin_cta(); }

void Checker::end_cta() { requests_.close_all(); }

void Checker::cta_sync() {
  shadow_.cta_sync();
  requests_.close_all();
}

void Checker::warp_sync(unsigned first_thread, unsigned lanes) {
  shadow_.warp_sync(first_thread, lanes);
}

const Checker::SharedArray* Checker::find_shared(std::uintptr_t address) const {
  if (arrays_[0].contains(address)) return &arrays_[0];
  const auto after =
      std::upper_bound(arrays_.begin() + 1, arrays_.end(), address,
                       [](std::uintptr_t a, const SharedArray& array) { return a < array.begin; });
  if (after == arrays_.begin() + 1) return nullptr;
  const SharedArray& array = *std::prev(after);
  return array.contains(address) ? &array : nullptr;
}

// Anything thread-local is shared memory to a kernel; so is the rest of the dynamic storage.
bool Checker::is_shared(std::uintptr_t address) const {
  return address - block_begin_ < block_end_ - block_begin_;
}

bool Checker::is_exempt(Worker& worker, const Thread& thread, std::uintptr_t address) const {
  if (worker.stack_of(thread).contains(address)) return true;  // its own local memory
  if (address >= parameters_begin_ && address < parameters_end_) return true;
  return is_builtin_variable(address);
}

void Checker::require_alignment(Worker& worker, Thread& thread, const Access& access,
                                const char* memory) {
  if (!access.aligned || access.address % access.bytes == 0) return;
  worker.fail(Fault::misaligned, thread.number, access.where,
              Text("%s %u byte%s of %s memory at an address that is only a multiple of %zu",
                   verb(access.kind), access.bytes, plural(access.bytes), memory,
                   static_cast<std::size_t>(access.address & (~access.address + 1))));
}

void Checker::fail_outside_shared(Worker& worker, Thread& thread, const Access& access) {
  Text where("outside of every array");
  const std::size_t in_dynamic = access.address - dynamic_begin_;
  if (in_dynamic < kMaxSharedBytes) {
    where = Text("from byte %zu of smem, but the launch asked for %zu byte%s", in_dynamic,
                 arrays_[0].bytes, plural(arrays_[0].bytes));
  } else {
    // The array that ends or begins nearest.
    for (const SharedArray& array : arrays_)
      if (access.address >= array.begin && access.address - array.begin < array.bytes + 64)
        where = Text("from byte %zu of %s, which has %zu byte%s",
                     static_cast<std::size_t>(access.address - array.begin), array.name,
                     array.bytes, plural(array.bytes));
  }
  worker.fail(Fault::out_of_bounds, thread.number, access.where,
              Text("%s %u byte%s of shared memory, %s", verb(access.kind), access.bytes,
                   plural(access.bytes), where.c_str()));
}

void Checker::shared_access(Worker& worker, Thread& thread, const Access& access) {
  const SharedArray* array = find_shared(access.address);
  if (!array || access.bytes > array->bytes - (access.address - array->begin))
    fail_outside_shared(worker, thread, access);
  require_alignment(worker, thread, access, "shared");
  const std::size_t in_array = access.address - array->begin;
  const std::size_t offset = array->shadow_offset + in_array;
  shadow_.access(worker, thread.number, offset, access.bytes, access.kind, access.where,
                 {array->name, in_array});
  requests_.add(thread.number,
                access.kind == AccessKind::read ? Traffic::shared_load : Traffic::shared_store,
                offset, access.bytes, access.where);
}

void Checker::global_access(Worker& worker, Thread& thread, const Access& access) {
  if (!last_global_.contains(access.address, access.bytes)) {
    if (access.kind == AccessKind::read && is_program_constant(access.address)) return;
    last_global_ = find_global(access.address);
    if (!last_global_.contains(access.address, access.bytes)) {
      for (unsigned i = 0; i < worker.num_threads(); ++i)
        if (worker.stack_of(worker.thread(i)).contains(access.address))
          worker.fail(Fault::out_of_bounds, thread.number, access.where,
                      Text("%s the local memory of $other", verb(access.kind)), {}, i);
      const GlobalFault fault = explain_global(access.address, access.bytes);
      worker.fail(Fault::out_of_bounds, thread.number, access.where,
                  Text("%s %u byte%s: %s", verb(access.kind), access.bytes, plural(access.bytes),
                       fault.text.c_str()),
                  fault.where_allocated.file ? Where(fault.where_allocated) : Where());
    }
  }
  require_alignment(worker, thread, access, "global");
  requests_.add(thread.number,
                access.kind == AccessKind::read ? Traffic::global_load : Traffic::global_store,
                access.address, access.bytes, access.where);
}

void Checker::access(Worker& worker, Thread& thread, const Access& access) {
  if (is_exempt(worker, thread, access.address)) return;
  if (is_shared(access.address)) {
    shared_access(worker, thread, access);
  } else {
    global_access(worker, thread, access);
  }
}

void Checker::copy_started(Worker& worker, Thread& thread, const void* shared, std::uint32_t bytes,
                           Where where) {
  const auto address = reinterpret_cast<std::uintptr_t>(shared);
  const Access write{address, bytes, AccessKind::write, true, where};
  if (!is_shared(address))
    worker.fail(Fault::out_of_bounds, thread.number, where,
                "the destination of an asynchronous copy is not in shared memory");
  shared_access(worker, thread, write);
  const SharedArray* array = find_shared(address);
  shadow_.set_pending(array->shadow_offset + (address - array->begin), bytes);
}

void Checker::copy_arrived(Thread& thread, const void* shared, std::uint32_t bytes, Where where) {
  const auto address = reinterpret_cast<std::uintptr_t>(shared);
  const SharedArray* array = find_shared(address);
  shadow_.arrived(thread.number, array->shadow_offset + (address - array->begin), bytes, where);
}

void check_row(Worker& worker, Thread& thread, const void* row, Where where) {
  const Access access{reinterpret_cast<std::uintptr_t>(row), 16, AccessKind::read, true, where};
  if (worker.checker()) {
    worker.checker()->access(worker, thread, access);
  } else if (access.address % 16 != 0) {
    worker.fail(Fault::misaligned, thread.number, where, "ldmatrix: a row must be 16-byte aligned");
  }
}

void check_access(Worker& worker, const void* address, std::uint32_t bytes, AccessKind kind,
                  Where where) {
  if (Checker* checker = worker.checker())
    checker->access(worker, worker.thread(),
                    {reinterpret_cast<std::uintptr_t>(address), bytes, kind, true, where});
}

}  // namespace kv::emulator
