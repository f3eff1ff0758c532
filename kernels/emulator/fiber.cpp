#include "fiber.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <new>
#include <utility>

#include "asan.hpp"

namespace kv::emulator {

namespace context = boost::context::detail;

namespace {

#ifdef KV_ASAN
constexpr std::size_t kStackBytes = 256 * 1024;  // instrumented frames are larger
#else
constexpr std::size_t kStackBytes = 64 * 1024;
#endif

// Announces a switch to AddressSanitizer; a null `save` says that this stack is left for good.
void announce([[maybe_unused]] void** save, [[maybe_unused]] const void* bottom,
              [[maybe_unused]] std::size_t bytes) {
#ifdef KV_ASAN
  __sanitizer_start_switch_fiber(save, bottom, bytes);
#endif
}

void announce_arrival([[maybe_unused]] void* saved, [[maybe_unused]] const void** old_bottom,
                      [[maybe_unused]] std::size_t* old_bytes) {
#ifdef KV_ASAN
  __sanitizer_finish_switch_fiber(saved, old_bottom, old_bytes);
#endif
}

}  // namespace

Stack::Stack(unsigned index) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  mapped_bytes_ = kStackBytes + page;
  mapping_ = mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping_ == MAP_FAILED) throw std::bad_alloc();
  mprotect(mapping_, page, PROT_NONE);
  lowest_ = reinterpret_cast<std::uintptr_t>(mapping_) + page;
  end_ = lowest_ + kStackBytes;
  // Equal distances between stacks would put all their hot ends into the same few cache sets.
  top_ = end_ - index * 320 % 4096 / 64 * 64;
}

Stack::~Stack() {
  if (mapping_) munmap(mapping_, mapped_bytes_);
}

Stack::Stack(Stack&& other) noexcept
    : mapping_(std::exchange(other.mapping_, nullptr)),
      mapped_bytes_(other.mapped_bytes_),
      lowest_(other.lowest_),
      end_(other.end_),
      top_(other.top_) {}

void Stack::clean() const {
#ifdef KV_ASAN
  ASAN_UNPOISON_MEMORY_REGION(reinterpret_cast<void*>(lowest_), end_ - lowest_);
#endif
}

context::fcontext_t Switch::create(const Stack& stack) {
  return context::make_fcontext(reinterpret_cast<void*>(stack.top()), stack.top() - stack.lowest(),
                                first_entry);
}

void Switch::first_entry(context::transfer_t transfer) {
  auto& self = *static_cast<Switch*>(transfer.data);
  self.arrived_in_fiber(transfer, nullptr);
  self.entry_(self.argument_);
  std::abort();  // entry ends in leave()
}

void Switch::arrived_in_fiber(context::transfer_t transfer, void* fake_stack) {
  announce_arrival(fake_stack, &scheduler_stack_, &scheduler_stack_bytes_);
  scheduler_ = transfer.fctx;
}

void Switch::resume(context::fcontext_t& fiber, const Stack& stack, Entry entry, void* argument,
                    bool first) {
  if (first) {
    entry_ = entry;
    argument_ = argument;
  }
  void* fake_stack = nullptr;
  announce(&fake_stack, reinterpret_cast<const void*>(stack.lowest()),
           stack.top() - stack.lowest());
  const context::transfer_t back = context::jump_fcontext(fiber, this);
  announce_arrival(fake_stack, nullptr, nullptr);
  fiber = back.fctx;
}

void Switch::suspend() {
  void* fake_stack = nullptr;
  announce(&fake_stack, scheduler_stack_, scheduler_stack_bytes_);
  const context::transfer_t transfer = context::jump_fcontext(scheduler_, this);
  arrived_in_fiber(transfer, fake_stack);
}

void Switch::leave() {
  announce(nullptr, scheduler_stack_, scheduler_stack_bytes_);
  context::jump_fcontext(scheduler_, this);
  std::abort();  // nobody resumes a fiber that has left
}

}  // namespace kv::emulator
