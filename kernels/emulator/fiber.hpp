// Stacks, and the switch from one to another.
//
// Raw Boost.Context switches: about 10 ns. AddressSanitizer is told of each, so that it knows on
// which stack it is.
#pragma once

#include <boost/context/detail/fcontext.hpp>
#include <cstddef>
#include <cstdint>

namespace kv::emulator {

/// A stack with a guard page below it, kept for many fibers one after the other.
class Stack {
 public:
  /// \param index stacks with neighbouring numbers begin at different cache sets
  explicit Stack(unsigned index);
  ~Stack();
  /// Takes over the memory.
  Stack(Stack&& other) noexcept;
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;
  Stack& operator=(Stack&&) = delete;

  /// The lowest usable address.
  std::uintptr_t lowest() const { return lowest_; }
  /// Where a fiber begins.
  std::uintptr_t top() const { return top_; }
  /// Whether an address lies on this stack.
  bool contains(std::uintptr_t address) const { return address >= lowest_ && address < end_; }

  /// Forgets what AddressSanitizer knows of frames that were abandoned on it.
  void clean() const;

 private:
  void* mapping_ = nullptr;
  std::size_t mapped_bytes_ = 0;
  std::uintptr_t lowest_ = 0;
  std::uintptr_t end_ = 0;
  std::uintptr_t top_ = 0;
};

/// The scheduler of one operating-system thread and the fiber that it runs: the two sides of a
/// switch.
class Switch {
 public:
  /// What a fiber runs.
  using Entry = void (*)(void* argument);

  /// Prepares a context on `stack`; the first resume() tells what it calls.
  static boost::context::detail::fcontext_t create(const Stack& stack);

  /// From the scheduler: runs the fiber until it comes back.
  /// \param context  of the fiber, updated
  /// \param stack    the fiber's own
  /// \param entry    what a first run calls
  /// \param argument of entry
  /// \param first    the fiber begins, with entry(argument), which must end in leave()
  void resume(boost::context::detail::fcontext_t& context, const Stack& stack, Entry entry,
              void* argument, bool first);

  /// From a fiber: back to the scheduler, until resumed.
  void suspend();

  /// From a fiber: back to the scheduler for good.
  [[noreturn]] void leave();

 private:
  static void first_entry(boost::context::detail::transfer_t transfer);
  void arrived_in_fiber(boost::context::detail::transfer_t transfer, void* fake_stack);

  boost::context::detail::fcontext_t scheduler_ = nullptr;
  Entry entry_ = nullptr;
  void* argument_ = nullptr;
  const void* scheduler_stack_ = nullptr;  // for AddressSanitizer
  std::size_t scheduler_stack_bytes_ = 0;
};

}  // namespace kv::emulator
