#include "watchdog.hpp"

#include <ucontext.h>
#include <unistd.h>

#include "scheduler.hpp"

namespace kv::emulator {
namespace {

int signal_number() { return SIGRTMIN + 4; }  // a free one; debuggers use the first few

const void* interrupted_at(const void* context) {
#if defined(__x86_64__)
  const auto& registers = static_cast<const ucontext_t*>(context)->uc_mcontext.gregs;
  return reinterpret_cast<const void*>(registers[REG_RIP] + 1);  // as a return address
#elif defined(__aarch64__)
  return reinterpret_cast<const void*>(static_cast<const ucontext_t*>(context)->uc_mcontext.pc + 1);
#else
  (void)context;
  return nullptr;
#endif
}

}  // namespace

void Watchdog::on_signal(int, siginfo_t*, void* context) {
  Worker* worker = Worker::running();
  if (!worker) return;
  if (worker->progress_ != worker->progress_at_tick_) {
    worker->progress_at_tick_ = worker->progress_;
    worker->idle_ticks_ = 0;
    return;
  }
  worker->idle_ticks_ = worker->idle_ticks_ + 1;
  if (worker->idle_ticks_ < 2) return;
  // Whoever still comes by the emulator is stopped there, where the line is known.
  worker->overdue_ = true;
  // The others are in a loop without any device function. Inside the emulator a fiber may hold
  // memory and must not be abandoned.
  if (worker->idle_ticks_ > 2 && worker->in_kernel_)
    worker->report_no_progress(Where(interrupted_at(context)));
}

Watchdog::Watchdog(Worker& worker, double seconds) {
  struct sigaction action {};
  action.sa_sigaction = on_signal;
  // NODEFER: the handler may never return, and the signal must work again after it.
  action.sa_flags = SA_SIGINFO | SA_RESTART | SA_NODEFER;
  sigaction(signal_number(), &action, nullptr);

  worker.progress_at_tick_ = worker.progress_;
  worker.idle_ticks_ = 0;
  sigevent event{};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = signal_number();
#ifdef sigev_notify_thread_id
  event.sigev_notify_thread_id = gettid();
#else
  event._sigev_un._tid = gettid();
#endif
  if (timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer_) != 0) return;
  armed_ = true;
  // The second tick without progress makes an end.
  const auto nanoseconds = static_cast<long long>(seconds * 0.5e9);
  itimerspec interval{};
  interval.it_value.tv_sec = nanoseconds / 1000000000;
  interval.it_value.tv_nsec = nanoseconds % 1000000000;
  interval.it_interval = interval.it_value;
  timer_settime(timer_, 0, &interval, nullptr);
}

Watchdog::~Watchdog() {
  if (armed_) timer_delete(timer_);
}

}  // namespace kv::emulator
