// Global memory of the emulated device: what is allocated, and whose an address is.
#pragma once

#include <cstddef>
#include <cstdint>

#include "site.hpp"
#include "text.hpp"

namespace kv::emulator {

/// \return memory filled with NaN, aligned to 256 bytes, with guards around it; null when there is
///         none left
void* allocate_global(std::size_t bytes, Site site);

/// Ends the life of an allocation. Its memory is kept apart for a while, filled with NaN, so that a
/// later access is known for what it is.
/// \throws std::invalid_argument when `address` is not the start of a living allocation
void free_global(void* address);

/// Where an access stands with respect to the allocations.
struct GlobalRange {
  std::uintptr_t begin = 0;  ///< a living allocation, or empty
  std::uintptr_t end = 0;    ///< behind its last byte
  /// Whether an access to [address, address + bytes) lies inside.
  bool contains(std::uintptr_t address, std::size_t bytes) const {
    return address >= begin && address < end && bytes <= end - address;
  }
};

/// \return the living allocation that holds `address`, or an empty range. Not to be called while
///         another thread allocates.
GlobalRange find_global(std::uintptr_t address);

/// Says in words why an access outside of all living allocations is wrong; $2 in the text stands
/// for `where_allocated`.
struct GlobalFault {
  Text text;             ///< what is wrong
  Site where_allocated;  ///< of the allocation next to it
};
/// \param address first byte of the access
/// \param bytes   its length
GlobalFault explain_global(std::uintptr_t address, std::size_t bytes);

}  // namespace kv::emulator
