// The memory checks of one operating-system thread: which memory an access belongs to, and whether
// the rules of that memory allow it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "global_memory.hpp"
#include "report.hpp"
#include "requests.hpp"
#include "shared_shadow.hpp"

namespace kv::emulator {

struct Launch;
struct Thread;
class Worker;

/// One access of one thread.
struct Access {
  std::uintptr_t address = 0;          ///< first byte
  std::uint32_t bytes = 0;             ///< length
  AccessKind kind = AccessKind::read;  ///< what it does
  bool aligned = true;                 ///< must be a multiple of `bytes`
  Where where;                         ///< in the kernel's code
};

/// Checks and counts the accesses of the CTA that runs.
class Checker {
 public:
  /// Before the first CTA of a launch.
  void begin_launch(const Launch& launch);
  /// A new CTA: nothing in shared memory is written yet.
  void begin_cta();
  /// All threads of the CTA have ended.
  void end_cta();

  /// All threads of the CTA have met.
  void cta_sync();
  /// `lanes` (bit i: lane i) of the warp that begins with thread `first_thread` have met in
  /// __syncwarp.
  void warp_sync(unsigned first_thread, unsigned lanes);
  /// All lanes of the warp have executed the same code up to here.
  void close_requests(unsigned warp) { requests_.close(warp); }

  /// Checks an access; it returns only when the access may be made.
  void access(Worker& worker, Thread& thread, const Access& access);

  /// A cp.async has been started: its destination must not be touched from now on.
  /// \param worker runs the CTA
  /// \param thread has started it
  /// \param shared destination
  /// \param bytes  4, 8 or 16
  /// \param where  the instruction
  void copy_started(Worker& worker, Thread& thread, const void* shared, std::uint32_t bytes,
                    Where where);
  /// Its thread has waited for it: from now on `bytes` bytes from `shared` on count as written by
  /// that thread.
  void copy_arrived(Thread& thread, const void* shared, std::uint32_t bytes, Where where);

  /// What the launch has moved so far.
  RequestCounts& counts() { return requests_.counts(); }

 private:
  // Where an access to shared memory lies: the array, and its place in the shadow.
  struct SharedArray {
    const char* name = "";
    std::uintptr_t begin = 0;
    std::size_t bytes = 0;
    std::size_t shadow_offset = 0;
    bool contains(std::uintptr_t address) const { return address - begin < bytes; }
  };

  const SharedArray* find_shared(std::uintptr_t address) const;
  bool is_shared(std::uintptr_t address) const;
  void shared_access(Worker& worker, Thread& thread, const Access& access);
  void global_access(Worker& worker, Thread& thread, const Access& access);
  bool is_exempt(Worker& worker, const Thread& thread, std::uintptr_t address) const;
  void require_alignment(Worker& worker, Thread& thread, const Access& access, const char* memory);
  [[noreturn]] void fail_outside_shared(Worker& worker, Thread& thread, const Access& access);

  SharedShadow shadow_;
  Requests requests_;
  std::vector<SharedArray> arrays_;  // the dynamic one first, then by address
  std::uintptr_t dynamic_begin_ = 0;
  std::uintptr_t block_begin_ = 0;  // thread-local block of this operating-system thread
  std::uintptr_t block_end_ = 0;
  std::uintptr_t parameters_begin_ = 0;
  std::uintptr_t parameters_end_ = 0;
  GlobalRange last_global_;
};

/// Checks one row of ldmatrix in the checked build; its 16-byte alignment in both.
void check_row(Worker& worker, Thread& thread, const void* row, Where where);

/// Checks an access in the checked build; nothing in the fast one.
void check_access(Worker& worker, const void* address, std::uint32_t bytes, AccessKind kind,
                  Where where);

}  // namespace kv::emulator
