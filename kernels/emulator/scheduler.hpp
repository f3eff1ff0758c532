// Runs the threads of one CTA after another on one operating-system thread.
//
// A fiber runs until it must wait, in a CTA barrier or in a warp operation. The scheduler then
// resumes the next thread that can go on. When nobody can, that is the report: never a hang.
#pragma once

#include <csignal>
#include <cstdint>
#include <memory>
#include <random>
#include <set>
#include <tuple>
#include <vector>

#include "collectives.hpp"
#include "emulator.hpp"
#include "fiber.hpp"
#include "report.hpp"

namespace kv::emulator {

class Checker;

/// Threads of a warp.
inline constexpr unsigned kWarpSize = 32;

/// A launch as the CTAs see it.
struct Launch {
  const void* kernel = nullptr;  ///< its address, for the name
  Dim3 grid;                     ///< CTAs
  Dim3 cta_size;                 ///< threads of a CTA
  std::size_t shared_bytes = 0;  ///< dynamic shared memory that was asked for
  bool checked = false;          ///< the kernel was compiled with the memory callbacks
  Site site;                     ///< of the launch
  void (*entry)(const void* parameters) = nullptr;  ///< calls the kernel; run by each thread
  const void* parameters = nullptr;                 ///< a tuple of the kernel's arguments
  std::size_t parameter_bytes = 0;                  ///< size of the tuple

  /// Threads of a CTA.
  unsigned num_threads() const { return cta_size.x * cta_size.y * cta_size.z; }
  /// CTAs of the grid.
  std::uint64_t num_ctas() const { return std::uint64_t{grid.x} * grid.y * grid.z; }
};

/// A cp.async that was started and has not been waited for.
struct PendingCopy {
  void* shared = nullptr;        ///< destination
  const void* global = nullptr;  ///< source
  std::size_t bytes = 0;         ///< of the destination
  std::size_t zero_bytes = 0;    ///< how many of them, at the end, become 0 instead
  Where where;                   ///< of the cp.async
};

/// One CUDA thread.
struct Thread {
  /// What a thread is doing.
  enum class State : std::uint8_t {
    ready,          ///< can run
    in_barrier,     ///< waits for its CTA
    in_collective,  ///< waits for lanes of its warp
    returned,       ///< has left the kernel
  };

  boost::context::detail::fcontext_t context = nullptr;  ///< where it goes on
  bool started = false;                                  ///< has run before
  State state = State::ready;                            ///< what it is doing
  unsigned number = 0;                                   ///< linear index in the CTA
  Index3 index;                                          ///< threadIdx

  // What it waits in.
  Site site;                                ///< where it waits
  Barrier barrier = Barrier::plain;         ///< which kind of __syncthreads
  int predicate = 0;                        ///< its argument
  Collective operation = Collective::sync;  ///< which warp operation
  unsigned mask = 0;                        ///< lanes that take part
  const void* in = nullptr;                 ///< what this lane gives
  void* out = nullptr;                      ///< what it gets

  std::vector<PendingCopy> copies;       ///< in the order they were started
  std::vector<std::size_t> copy_groups;  ///< for each committed group: copies up to its end

  /// Its warp in the CTA.
  unsigned warp() const { return number / kWarpSize; }
  /// Its place in the warp.
  unsigned lane() const { return number % kWarpSize; }
};

/// An operating-system thread that runs CTAs.
class Worker {
 public:
  /// Without a CTA; of_this_thread() makes it.
  Worker();
  ~Worker();

  /// The worker of this operating-system thread, made at the first use.
  static Worker& of_this_thread();
  /// The worker whose kernel runs on this operating-system thread now, or null.
  static Worker* running();

  /// Gets ready for CTAs of a launch, which must outlive them.
  void begin_launch(const Launch& launch, const Options& options);
  /// \return false when the CTA was stopped by an error
  bool run_cta(std::uint64_t cta);
  /// No CTA of it will run any more.
  void end_launch();

  // For the device functions, called by the fiber of thread().
  /// The thread that runs.
  Thread& thread() { return *current_; }
  /// Another one of its CTA.
  Thread& thread(unsigned number) { return threads_[number]; }
  /// The launch that runs.
  const Launch& launch() const { return *launch_; }
  /// Null in the fast build.
  Checker* checker() { return launch_->checked ? checker_.get() : nullptr; }
  /// The same where it is known not to be null.
  Checker& checker_of_launch() { return *checker_; }
  /// A thread's stack.
  const Stack& stack_of(const Thread& thread) const { return stacks_[thread.number]; }
  /// Threads of the CTA.
  unsigned num_threads() const { return num_threads_; }
  /// How many of them have ended.
  unsigned num_returned() const { return num_returned_; }

  /// Lanes of a warp that exist and have not returned.
  unsigned alive(unsigned warp) const { return alive_[warp]; }

  /// Suspends the running thread until another sets its state to ready.
  void wait(Thread::State state);
  /// Lets the others run first: a thread that spins on an atomic would otherwise never end.
  void give_way();
  /// The thread that came first to the barrier in which threads wait now, or null.
  const Thread* first_in_barrier() const { return first_in_barrier_; }
  /// Counts the running thread in. \return whether all threads of the CTA are there now
  bool is_last_at_barrier() {
    if (!first_in_barrier_) first_in_barrier_ = current_;
    if (++num_in_barrier_ < num_threads_) return false;
    num_in_barrier_ = 0;
    first_in_barrier_ = nullptr;
    return true;
  }
  /// Tells the watchdog that the CTA is not stuck.
  void made_progress() {
    progress_ = progress_ + 1;
    overdue_ = false;
  }

  /// Keeps a finding and goes on. The same places are kept once.
  /// \param fault        what is wrong
  /// \param thread       of the CTA, whose access it was
  /// \param where        its instruction
  /// \param detail       the rest of the message
  /// \param other        the access that it collides with, if one does
  /// \param other_thread whose that was
  void record(Fault fault, unsigned thread, Where where, const Text& detail, Where other = {},
              unsigned other_thread = 0);
  /// Keeps a finding, of which it is told what record() is told, and stops the CTA.
  /// \param fault        what is wrong
  /// \param thread       of the CTA
  /// \param where        its instruction
  /// \param detail       the rest of the message
  /// \param other        another place that has to do with it
  /// \param other_thread the thread there
  [[noreturn]] void fail(Fault fault, unsigned thread, Where where, const Text& detail,
                         Where other = {}, unsigned other_thread = 0);

  /// What this worker has found in the launch.
  const std::vector<Finding>& findings() const { return findings_; }
  /// The first of its CTAs that an error stopped; the number of all when none was.
  std::uint64_t first_failed_cta() const { return first_failed_cta_; }

 private:
  friend class RuntimeScope;
  friend class Watchdog;

  void prepare(std::uint64_t cta);
  void order_threads();
  void resume(Thread& thread);
  static void thread_main(void* worker);
  void thread_returned();
  void report_stuck();
  void report_no_progress(Where where);

  const Launch* launch_ = nullptr;
  Options options_;
  std::vector<Stack> stacks_;
  std::vector<Thread> threads_;
  std::vector<unsigned> order_;
  std::vector<unsigned> alive_;  // by warp
  Switch switch_;
  Thread* current_ = nullptr;
  unsigned num_threads_ = 0;
  unsigned num_returned_ = 0;
  unsigned num_in_barrier_ = 0;
  const Thread* first_in_barrier_ = nullptr;
  std::uint64_t cta_ = 0;
  bool failed_ = false;
  std::mt19937_64 random_;
  std::unique_ptr<Checker> checker_;

  std::vector<Finding> findings_;
  std::set<std::tuple<int, std::uint64_t, std::uint64_t>> known_findings_;
  std::uint64_t first_failed_cta_ = 0;

  // Shared with the watchdog's signal handler on this operating-system thread.
  volatile bool in_kernel_ = false;
  volatile bool overdue_ = false;
  volatile std::uint64_t progress_ = 0;
  volatile std::uint64_t progress_at_tick_ = 0;
  volatile int idle_ticks_ = 0;
};

/// While one lives, the fiber is in the emulator and not in the kernel: the watchdog may not
/// abandon it, and says so by a flag that is read here.
class RuntimeScope {
 public:
  /// \param worker whose thread calls
  /// \param where  what the kernel has called
  RuntimeScope(Worker& worker, Where where) : worker_(worker) {
    worker_.in_kernel_ = false;
    if (worker_.overdue_) worker_.report_no_progress(where);
  }
  ~RuntimeScope() { worker_.in_kernel_ = true; }
  RuntimeScope(const RuntimeScope&) = delete;
  RuntimeScope& operator=(const RuntimeScope&) = delete;

 private:
  Worker& worker_;
};

/// After a thread has returned: completes the warp operation that waited only for it.
void complete_without(Worker& worker, Thread& returned);

/// \return the CUDA name, e.g. "__shfl_xor_sync"
const char* name(Collective operation);
/// \return the name of the CUDA function
const char* name(Barrier barrier);

/// The storage of `extern __shared__ unsigned char smem[]` on this operating-system thread.
unsigned char* dynamic_shared(bool checked);
/// \return whether the address is threadIdx or one of its relatives
bool is_builtin_variable(std::uintptr_t address);
/// Dynamic shared memory that a launch may ask for at most: 227 KiB, as on compute capability 9.0.
inline constexpr std::size_t kMaxSharedBytes = 232448;
/// The same without opting in.
inline constexpr std::size_t kDefaultSharedBytes = 48 * 1024;

}  // namespace kv::emulator
