#include "scheduler.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "checker.hpp"
#include "cuda.hpp"
#include "symbols.hpp"

namespace kv::emulator {

/// threadIdx and its like, of the CUDA thread that runs on this operating-system thread.
constinit thread_local Builtins builtins;

namespace {

thread_local Worker* running_worker = nullptr;

// A static __shared__ array starts as NaN in every CTA, as if its last owner had been another one.
void poison_static_arrays() {
  const std::uintptr_t block = thread_local_block();
  for (const SharedSymbol& array : shared_symbols().arrays)
    std::memset(reinterpret_cast<void*>(block + array.offset), 0xff, array.bytes);
}

}  // namespace

Worker::Worker() : checker_(std::make_unique<Checker>()) {}
Worker::~Worker() = default;

Worker& Worker::of_this_thread() {
  thread_local Worker worker;
  return worker;
}

Worker* Worker::running() { return running_worker; }

void Worker::begin_launch(const Launch& launch, const Options& options) {
  launch_ = &launch;
  options_ = options;
  num_threads_ = launch.num_threads();
  while (stacks_.size() < num_threads_) stacks_.emplace_back(static_cast<unsigned>(stacks_.size()));
  threads_.resize(std::max<std::size_t>(threads_.size(), num_threads_));
  findings_.clear();
  known_findings_.clear();
  first_failed_cta_ = launch.num_ctas();
  overdue_ = false;
  builtins.cta_size = launch.cta_size;
  builtins.grid_size = launch.grid;
  if (launch.checked) checker_->begin_launch(launch);
  running_worker = this;
}

void Worker::end_launch() {
  running_worker = nullptr;
  launch_ = nullptr;
}

void Worker::prepare(std::uint64_t cta) {
  cta_ = cta;
  failed_ = false;
  num_returned_ = 0;
  num_in_barrier_ = 0;
  first_in_barrier_ = nullptr;
  builtins.cta_index = index_of(cta, launch_->grid);
  alive_.assign((num_threads_ + kWarpSize - 1) / kWarpSize, 0);
  for (unsigned i = 0; i < num_threads_; ++i) {
    Thread& thread = threads_[i];
    stacks_[i].clean();
    thread.context = Switch::create(stacks_[i]);
    thread.started = false;
    thread.state = Thread::State::ready;
    thread.number = i;
    thread.index = index_of(i, launch_->cta_size);
    thread.copies.clear();
    thread.copy_groups.clear();
    alive_[thread.warp()] |= 1u << thread.lane();
  }
  order_.resize(num_threads_);
  std::iota(order_.begin(), order_.end(), 0u);
  if (options_.order == Order::reverse) std::reverse(order_.begin(), order_.end());
  random_.seed(options_.seed * 0x9e3779b97f4a7c15u + cta);
  std::memset(dynamic_shared(launch_->checked), 0xff, launch_->shared_bytes);
  poison_static_arrays();
  if (launch_->checked) checker_->begin_cta();
}

void Worker::order_threads() {
  if (options_.order == Order::random) std::shuffle(order_.begin(), order_.end(), random_);
}

bool Worker::run_cta(std::uint64_t cta) {
  prepare(cta);
  while (num_returned_ < num_threads_ && !failed_) {
    order_threads();
    bool anyone_ran = false;
    for (const unsigned number : order_) {
      if (threads_[number].state != Thread::State::ready) continue;
      resume(threads_[number]);
      anyone_ran = true;
      if (failed_) break;
    }
    if (!anyone_ran) report_stuck();
  }
  if (launch_->checked) checker_->end_cta();
  if (failed_) first_failed_cta_ = std::min(first_failed_cta_, cta);
  return !failed_;
}

void Worker::resume(Thread& thread) {
  current_ = &thread;
  builtins.thread_index = thread.index;
  const bool first = !thread.started;
  thread.started = true;
  switch_.resume(thread.context, stacks_[thread.number], thread_main, this, first);
  current_ = nullptr;
}

void Worker::thread_main(void* argument) {
  auto& worker = *static_cast<Worker*>(argument);
  worker.in_kernel_ = true;
  worker.launch_->entry(worker.launch_->parameters);
  worker.in_kernel_ = false;
  worker.thread_returned();
  worker.switch_.leave();
}

void Worker::thread_returned() {
  Thread& thread = *current_;
  thread.state = Thread::State::returned;
  alive_[thread.warp()] &= ~(1u << thread.lane());
  ++num_returned_;
  made_progress();
  complete_without(*this, thread);
}

void Worker::wait(Thread::State state) {
  current_->state = state;
  switch_.suspend();
}

void Worker::give_way() { switch_.suspend(); }

void Worker::record(Fault fault, unsigned thread, Where where, const Text& detail, Where other,
                    unsigned other_thread) {
  if (findings_.size() >= options_.max_reports) return;
  // Which of two racing accesses comes second depends on the schedule; the pair does not.
  const auto pair = std::minmax({where.bits(), other.bits()});
  if (!known_findings_.emplace(static_cast<int>(fault), pair.first, pair.second).second) return;
  findings_.push_back({fault, cta_, thread, where, other, other_thread, detail});
}

void Worker::fail(Fault fault, unsigned thread, Where where, const Text& detail, Where other,
                  unsigned other_thread) {
  record(fault, thread, where, detail, other, other_thread);
  failed_ = true;
  switch_.leave();  // the other fibers are abandoned: nothing in a kernel has a destructor
}

// Only on the way to a report: nobody is ready, so each thread waits or has returned.
void Worker::report_stuck() {
  const Thread* first = nullptr;
  const Thread* different = nullptr;
  for (unsigned i = 0; i < num_threads_; ++i) {
    const Thread& thread = threads_[i];
    if (thread.state == Thread::State::returned) continue;
    if (!first) first = &thread;
    if (!different && (thread.state != first->state || thread.site.line != first->site.line))
      different = &thread;
  }
  const auto waits_in = [](const Thread& thread) {
    return thread.state == Thread::State::in_barrier ? name(thread.barrier)
                                                     : name(thread.operation);
  };
  const bool barrier = first->state == Thread::State::in_barrier;
  failed_ = true;
  if (different) {
    const bool both_in_warp = !barrier && different->state == Thread::State::in_collective &&
                              first->warp() == different->warp();
    record(both_in_warp ? Fault::collective : Fault::deadlock, first->number, Where(first->site),
           Text("nobody can go on: it waits in %s, $other in %s at $2", waits_in(*first),
                waits_in(*different)),
           Where(different->site), different->number);
    return;
  }
  const auto gone = std::find_if(threads_.begin(), threads_.begin() + num_threads_,
                                 [](auto& t) { return t.state == Thread::State::returned; });
  const unsigned who = gone == threads_.begin() + num_threads_ ? first->number : gone->number;
  record(barrier ? Fault::barrier : Fault::deadlock, first->number, Where(first->site),
         Text("waits in %s but %u of %u threads have returned, $other first", waits_in(*first),
              num_returned_, num_threads_),
         {}, who);
}

void Worker::report_no_progress(Where where) {
  in_kernel_ = false;
  overdue_ = false;
  fail(
      Fault::no_progress, current_->number, where,
      Text("runs without end: no thread of the CTA has passed a barrier or returned for %.3g s of "
           "processor time. It waits for memory that nobody writes, or for a CTA that does not run",
           options_.watchdog_seconds));
}

}  // namespace kv::emulator
