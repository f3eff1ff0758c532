// What the emulator found in a launch, for people and for tests.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "index.hpp"
#include "site.hpp"
#include "text.hpp"

namespace kv::emulator {

/// The kinds of error that a launch can report.
enum class Fault {
  race,                ///< two threads, one location, no barrier in between
  uninitialized_read,  ///< shared memory read that no thread of the CTA has written
  out_of_bounds,       ///< not inside an allocation, a shared array or the requested bytes
  misaligned,          ///< address not a multiple of the access's size
  async_copy,          ///< destination of cp.async touched before its group was waited for
  barrier,             ///< __syncthreads not reached by all threads, or at different places
  collective,          ///< warp operation with a wrong mask, or lanes in different operations
  deadlock,            ///< nobody can go on
  no_progress,         ///< one thread runs on and on: a spin that nobody ends
  launch_limit,        ///< too many threads, too much shared memory, an empty grid
  unchecked_error,     ///< an earlier launch failed and nobody asked
};

/// \return the fault in words, e.g. "race on shared memory"
const char* name(Fault fault);

/// A position in the source of a kernel, before it is looked up: either a return address of the
/// compiled kernel or a Site. Small enough to be kept for every cell of shared memory.
class Where {
 public:
  Where() = default;
  /// \param return_address of a call in the kernel
  explicit Where(const void* return_address)
      : bits_(reinterpret_cast<std::uintptr_t>(return_address)) {}
  /// The site is kept for good, once.
  explicit Where(const Site& site);

  /// Both forms in one number, for storage.
  std::uint64_t bits() const { return bits_; }
  /// The other way.
  static Where from_bits(std::uint64_t bits) {
    Where where;
    where.bits_ = bits;
    return where;
  }
  /// The same place.
  bool operator==(const Where&) const = default;

  /// \return file and line of the code that a kernel's author wrote
  struct Place look_up() const;
  /// Looks many up at once: much faster than one after the other, which is fast from then on.
  static void look_up_ahead(std::span<const Where> wheres);

 private:
  std::uint64_t bits_ = 0;  // top bit set: index of a site
};

/// File (as the compiler was given it) and line; line 0 where it is not known.
struct Place {
  std::string file;          ///< as the compiler was given it
  int line = 0;              ///< 0 where it is not known
  std::string text() const;  ///< "tile.cu:31", without folders
};

/// One finding, as it is stored while a kernel runs.
struct Finding {
  Fault fault = Fault::race;  ///< what kind
  std::uint64_t cta = 0;      ///< linear index
  unsigned thread = 0;        ///< linear index in the CTA
  Where where;                ///< the access or the operation
  Where other;                ///< the second place, where there is one
  unsigned other_thread = 0;  ///< who was there
  Text detail;  ///< what happened; $2 and $other stand for the second place and thread
};

/// One finding with everything looked up.
struct Report {
  Fault fault = Fault::race;  ///< what kind
  std::string kernel;         ///< name with template arguments
  Index3 cta;                 ///< blockIdx
  Index3 thread;              ///< threadIdx
  Place place;                ///< the access or the operation
  Place other;                ///< the second place, where there is one
  std::string text;           ///< all of it, for a person
};

/// Looks the places of a finding up and words it.
Report make_report(const Finding& finding, const std::string& kernel, Dim3 grid, Dim3 cta_size);

/// \return the three-dimensional index of `linear` in `size`
Index3 index_of(std::uint64_t linear, Dim3 size);

}  // namespace kv::emulator
