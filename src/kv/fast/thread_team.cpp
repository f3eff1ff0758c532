#include "kv/fast/thread_team.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#ifdef __linux__
#include <sched.h>
#endif

#include "kv/check.hpp"

namespace kv {

namespace {

using Task = std::function<void(int, int)>;

// How often a waiting thread looks before it goes to sleep: some ten microseconds, about the gap
// between two sections of a decode step. A team that only spins collapses as soon as another
// program wants one of its processors, because the thread waited for is the one not running.
constexpr int kSpins = 1000;

void pause_briefly() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Returns once `word` no longer holds `old`.
int wait_for_change(const std::atomic<int>& word, int old) {
  for (int i = 0; i < kSpins; ++i) {
    const int now = word.load(std::memory_order_acquire);
    if (now != old) return now;
    pause_briefly();
  }
  // Returns only when the value has really changed.
  word.wait(old, std::memory_order_acquire);
  return word.load(std::memory_order_acquire);
}

int usable_processors() {
#ifdef __linux__
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
#endif
  return std::max(1u, std::thread::hardware_concurrency());
}

// The calling thread and `count - 1` workers.
//
// A section starts when `section_` changes and ends when `running_` is 0. The caller writes task_
// before the one and reads the workers' results after the other, so neither needs a lock.
class Team {
 public:
  explicit Team(int count) : count_(count) {
    try {
      for (int i = 1; i < count; ++i) workers_.emplace_back([this, i] { serve(i); });
    } catch (...) {  // the system has no more threads: release those already waiting
      stop();
      throw;
    }
  }
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;
  ~Team() { stop(); }

  int count() const { return count_; }

  void run(const Task& task) {
    task_ = &task;
    running_.store(count_ - 1, std::memory_order_relaxed);
    section_.fetch_add(1, std::memory_order_release);
    section_.notify_all();
    work(0);
    for (int left = running_.load(std::memory_order_acquire); left != 0;)
      left = wait_for_change(running_, left);
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  }

 private:
  void stop() {
    task_ = nullptr;
    section_.fetch_add(1, std::memory_order_release);
    section_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }

  void serve(int thread) {
    for (int section = 0;;) {
      section = wait_for_change(section_, section);
      if (task_ == nullptr) return;
      work(thread);
      if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) running_.notify_one();
    }
  }

  void work(int thread) {
    try {
      (*task_)(thread, count_);
    } catch (...) {
      const std::lock_guard lock(failure_mutex_);
      if (!failure_) failure_ = std::current_exception();
    }
  }

  const int count_;
  const Task* task_ = nullptr;                // null: the workers leave
  alignas(64) std::atomic<int> section_ = 0;  // number of sections begun; lines of their own,
  alignas(64) std::atomic<int> running_ = 0;  // because everybody looks at them all the time
  std::mutex failure_mutex_;
  std::exception_ptr failure_;  // the first one of a section
  std::vector<std::thread> workers_;
};

// Made at the first section; a change of size makes a new one.
struct Owner {
  std::mutex mutex;                              // sections of different callers follow each other
  std::atomic<int> count = usable_processors();  // read without the lock, also inside a section
  std::unique_ptr<Team> team;
};

Owner& owner() {
  static Owner instance;
  return instance;
}

thread_local bool inside_section = false;

// Marks a thread as being inside a section while it lives.
struct Inside {
  Inside() { inside_section = true; }
  ~Inside() { inside_section = false; }
};

}  // namespace

void parallel(const std::function<void(int thread, int num_threads)>& task) {
  require(!inside_section, "parallel sections must not nest");
  Owner& o = owner();
  const std::lock_guard lock(o.mutex);
  if (!o.team) o.team = std::make_unique<Team>(o.count);
  const Task marked = [&task](int thread, int num_threads) {
    const Inside inside;
    task(thread, num_threads);
  };
  o.team->run(marked);
}

void parallel_ranges(std::int64_t count, std::int64_t cost,
                     const std::function<void(std::int64_t begin, std::int64_t end)>& body) {
  constexpr std::int64_t kMinShared = 100'000;  // some microseconds, as long as a wake-up takes
  const auto share = [&](int thread, int num_threads) {
    const std::int64_t begin = count * thread / num_threads;
    const std::int64_t end = count * (thread + 1) / num_threads;
    if (begin < end) body(begin, end);
  };
  if (cost < kMinShared) {
    share(0, 1);
  } else {
    parallel(share);
  }
}

int num_threads() { return owner().count; }

void set_num_threads(int count) {
  require(count >= 1, "a team has at least one thread");
  require(!inside_section, "a section must not change its own team");
  Owner& o = owner();
  const std::lock_guard lock(o.mutex);
  if (o.team && o.team->count() == count) return;
  o.team.reset();
  o.count = count;
}

}  // namespace kv
