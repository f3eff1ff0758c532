// Atomic device functions. They are real atomics: CTAs run on several operating-system threads.
#pragma once

#include <cstdint>
#include <cstring>

#include "collectives.hpp"
#include "site.hpp"

namespace kv::emulator {

/// What an atomic does with the old value and its operand.
enum class Atomic {
  add,               ///< their sum
  exchange,          ///< stores the operand
  min,               ///< the smaller of the two
  max,               ///< the larger of the two
  bit_and,           ///< integers only
  bit_or,            ///< integers only
  bit_xor,           ///< integers only
  compare_and_swap,  ///< stores the operand if the old value is the expected one
};

/// One atomic on 4 or 8 bytes of global or shared memory.
///
/// \param operation which
/// \param address   aligned to its size
/// \param operand   the operand; for compare_and_swap the value to store
/// \param expected  only for compare_and_swap
/// \param site      the line of the kernel
/// \return the old value
std::uint32_t atomic(Atomic operation, int* address, int operand, int expected, Site site);
/// \copydoc atomic
std::uint32_t atomic(Atomic operation, unsigned* address, unsigned operand, unsigned expected,
                     Site site);
/// \copydoc atomic
std::uint64_t atomic(Atomic operation, unsigned long long* address, unsigned long long operand,
                     unsigned long long expected, Site site);
/// The old value's bits.
std::uint32_t atomic(Atomic operation, float* address, float operand, float expected, Site site);
/// The old value's bits.
std::uint64_t atomic(Atomic operation, double* address, double operand, double expected, Site site);

/// The operand has the type of the array, as in CUDA's overloads.
template <typename T>
struct Same {
  using Type = T;  ///< T, not deduced
};

/// atomic() for any type of 4 or 8 bytes: gives the old value its type back.
///
/// \param operation which
/// \param address   aligned to its size
/// \param operand   the operand; for compare_and_swap the value to store
/// \param expected  only for compare_and_swap
/// \param site      the line of the kernel
template <typename T>
T atomic_as(Atomic operation, T* address, T operand, T expected, Site site) {
  const auto bits = atomic(operation, address, operand, expected, site);
  T old;
  static_assert(sizeof(bits) == sizeof(T));
  std::memcpy(&old, &bits, sizeof(T));
  return old;
}

}  // namespace kv::emulator

// CUDA's own names, documented there.
/// \cond
#define KV_EMULATOR_ATOMIC(name, operation)                                                   \
  template <typename T>                                                                       \
  T name(T* address, typename kv::emulator::Same<T>::Type operand, KV_EMULATOR_HERE) {        \
    return kv::emulator::atomic_as<T>(kv::emulator::Atomic::operation, address, operand, T{}, \
                                      {file, line});                                          \
  }
KV_EMULATOR_ATOMIC(atomicAdd, add)
KV_EMULATOR_ATOMIC(atomicExch, exchange)
KV_EMULATOR_ATOMIC(atomicMin, min)
KV_EMULATOR_ATOMIC(atomicMax, max)
KV_EMULATOR_ATOMIC(atomicAnd, bit_and)
KV_EMULATOR_ATOMIC(atomicOr, bit_or)
KV_EMULATOR_ATOMIC(atomicXor, bit_xor)
#undef KV_EMULATOR_ATOMIC

template <typename T>
T atomicCAS(T* address, typename kv::emulator::Same<T>::Type expected,
            typename kv::emulator::Same<T>::Type desired, KV_EMULATOR_HERE) {
  return kv::emulator::atomic_as<T>(kv::emulator::Atomic::compare_and_swap, address, desired,
                                    expected, {file, line});
}
/// \endcond
