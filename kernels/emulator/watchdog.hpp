// Ends kernels that run without end.
//
// Fibers share an operating-system thread, so a thread that spins on memory keeps all others from
// running: such a kernel would hang. A timer of processor time interrupts it; the signal's handler
// runs on the fiber's stack and leaves the fiber for good.
#pragma once

#include <csignal>
#include <ctime>

namespace kv::emulator {

class Worker;

/// Watches the worker of this operating-system thread while it lives.
class Watchdog {
 public:
  /// \param worker  is watched; must outlive this
  /// \param seconds processor time without progress after which the CTA is stopped
  Watchdog(Worker& worker, double seconds);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  static void on_signal(int signal, siginfo_t* info, void* context);

  timer_t timer_{};
  bool armed_ = false;
};

}  // namespace kv::emulator
