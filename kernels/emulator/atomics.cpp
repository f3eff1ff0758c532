#include "atomics.hpp"

#include <algorithm>
#include <bit>

#include "checker.hpp"
#include "scheduler.hpp"

namespace kv::emulator {
namespace {

template <typename T>
T result_of(Atomic operation, T old, T operand, T expected) {
  switch (operation) {
    case Atomic::add:
      return static_cast<T>(old + operand);
    case Atomic::exchange:
      return operand;
    case Atomic::min:
      return std::min(old, operand);
    case Atomic::max:
      return std::max(old, operand);
    case Atomic::compare_and_swap:
      return old == expected ? operand : old;
    default:
      break;
  }
  if constexpr (std::is_integral_v<T>) {
    if (operation == Atomic::bit_and) return old & operand;
    if (operation == Atomic::bit_or) return old | operand;
    if (operation == Atomic::bit_xor) return old ^ operand;
  }
  return old;
}

// One compare-and-swap loop serves all operations; speed is not what the emulator is for.
template <typename Bits, typename T>
Bits update(Atomic operation, T* address, T operand, T expected, Site site) {
  Worker& worker = *Worker::running();
  const Where where(site);
  RuntimeScope scope(worker, where);
  check_access(worker, address, sizeof(T), AccessKind::atomic, where);
  auto* cell = reinterpret_cast<Bits*>(address);
  Bits old = __atomic_load_n(cell, __ATOMIC_SEQ_CST);
  Bits next = 0;
  do {
    next = std::bit_cast<Bits>(result_of(operation, std::bit_cast<T>(old), operand, expected));
  } while (
      !__atomic_compare_exchange_n(cell, &old, next, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
  // A thread that tries a lock again and again waits for one that has not run yet.
  const bool may_spin =
      operation == Atomic::compare_and_swap || operation == Atomic::exchange || next == old;
  if (may_spin) worker.give_way();
  return old;
}

}  // namespace

std::uint32_t atomic(Atomic operation, int* address, int operand, int expected, Site site) {
  return update<std::uint32_t>(operation, address, operand, expected, site);
}
std::uint32_t atomic(Atomic operation, unsigned* address, unsigned operand, unsigned expected,
                     Site site) {
  return update<std::uint32_t>(operation, address, operand, expected, site);
}
std::uint64_t atomic(Atomic operation, unsigned long long* address, unsigned long long operand,
                     unsigned long long expected, Site site) {
  return update<std::uint64_t>(operation, address, operand, expected, site);
}
std::uint32_t atomic(Atomic operation, float* address, float operand, float expected, Site site) {
  return update<std::uint32_t>(operation, address, operand, expected, site);
}
std::uint64_t atomic(Atomic operation, double* address, double operand, double expected,
                     Site site) {
  return update<std::uint64_t>(operation, address, operand, expected, site);
}

}  // namespace kv::emulator
