// Who has touched which byte of shared memory, and what orders the accesses.
//
// Two accesses of different threads are ordered by a CTA barrier between them, or, inside a warp,
// by a __syncwarp that both took part in. Nothing else orders memory: shuffles and votes exchange
// values only. Because the shadow remembers all unordered accesses of the current epoch, a race is
// found in whatever order the fibers ran.
//
// Source: the happens-before shadow of Flanagan & Freund 2009 (FastTrack), with the CTA epoch in
// the place of most of the vector clock.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "report.hpp"

namespace kv::emulator {

class Worker;

/// What an access does, and with which others it races where nothing orders them.
enum class AccessKind : std::uint8_t {
  read,    ///< races with writes and atomics
  write,   ///< races with every access
  atomic,  ///< reads and writes; races with all but atomics
};

/// The shadow of the shared memory of one CTA at a time.
class SharedShadow {
 public:
  /// \param bytes       shared memory to cover, dynamic and static
  /// \param num_threads threads of a CTA
  void begin_launch(std::size_t bytes, unsigned num_threads);
  /// Nothing is written yet.
  void begin_cta();

  /// All threads of the CTA have met.
  void cta_sync() { ++epoch_; }
  /// `lanes` (bit i: lane i) of the warp that begins with thread `first_thread` have met.
  void warp_sync(unsigned first_thread, unsigned lanes);

  /// What an access is about, for the report.
  struct Subject {
    const char* array = "";  ///< its name
    std::size_t offset = 0;  ///< bytes from the start of the array
  };

  /// Checks an access of `thread` to [offset, offset + bytes) of the shadow, reports races, reads
  /// of what nobody wrote and touched copies, and remembers it.
  /// \param worker  runs the CTA, and keeps the findings
  /// \param thread  of the CTA
  /// \param offset  in shared memory
  /// \param bytes   of the access
  /// \param kind    read, write or atomic
  /// \param where   the instruction
  /// \param subject names the memory in messages
  void access(Worker& worker, unsigned thread, std::size_t offset, std::size_t bytes,
              AccessKind kind, Where where, Subject subject);

  /// Marks [offset, offset + bytes), already accessed by a write, as being on its way.
  void set_pending(std::size_t offset, std::size_t bytes);
  /// The copy to [offset, offset + bytes) has arrived, as a write of `thread` now.
  void arrived(unsigned thread, std::size_t offset, std::size_t bytes, Where where);

 private:
  // The unordered accesses of one warp's lanes. Two warps are enough for a race with anybody.
  struct Lanes {
    Where where;
    std::uint32_t epoch = 0;
    std::uint32_t clock = 0;
    std::uint32_t mask = 0;
    std::uint32_t warp = 0;
  };

  // The history of one byte, or of four bytes that have always been used together.
  struct Cell {
    Where writer;
    std::uint32_t write_epoch = 0;
    std::uint32_t write_clock = 0;
    std::uint32_t write_thread = 0;
    std::uint32_t written = 0;  // epoch of the latest write or atomic; older than the CTA: never
    std::uint32_t pending = 0;  // epoch in which a cp.async to it began; 0: none
    Lanes readers[2];
    Lanes atomics[2];
  };

  struct Word {
    Cell cell;
    std::uint32_t split = 0;        // index of the four cells of its bytes
    std::uint32_t split_epoch = 0;  // valid from this epoch on; older than the CTA: not split
  };

  struct Current {
    Worker& worker;
    unsigned thread;
    AccessKind kind;
    Where where;
    Subject subject;
  };

  void touch(Cell& cell, const Current& now);
  void report_race(const Current& now, const Cell& cell, const Lanes* lanes, const char* other_did);
  bool ordered_write(const Cell& cell, unsigned thread) const;
  std::uint32_t unordered(const Lanes& lanes, unsigned thread) const;
  void remember(Lanes (&slots)[2], unsigned thread, Where where);
  std::array<Cell, 4>& split(Word& word);
  bool is_split(const Word& word) const { return word.split_epoch >= cta_epoch_; }

  template <typename Function>
  void for_cells(std::size_t offset, std::size_t bytes, Function function);

  std::vector<Word> words_;
  std::vector<std::array<Cell, 4>> splits_;
  std::uint32_t num_splits_ = 0;
  std::uint32_t epoch_ = 1;      // of CTA barriers; goes on from CTA to CTA, so nothing is cleared
  std::uint32_t cta_epoch_ = 1;  // the first epoch of this CTA
  // For each thread: for each lane of its warp, the clock of that lane up to which it is ordered
  // before this thread. Its own entry is its own clock.
  std::vector<std::array<std::uint32_t, 32>> seen_;
};

}  // namespace kv::emulator
