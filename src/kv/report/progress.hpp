// One line on the terminal that says how far a long job is; silent in a pipe.
#pragma once

#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <string>

namespace kv {

/// Draws on stderr only when it is a terminal, at most ten times a second, and wipes its line at
/// the end, so that neither logs nor results ever hold it.
class Progress {
 public:
  /// \param label what is being done
  /// \param total steps of the whole job; 0 when unknown
  Progress(std::string label, std::int64_t total);
  /// For tests: draws on `out`, and at every update, if `visible`; label and total as above.
  Progress(std::string label, std::int64_t total, std::ostream& out, bool visible);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();

  /// \param done steps finished so far
  void update(std::int64_t done);

  /// Wipes the line; later updates draw it again.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;

  std::string label_;
  std::int64_t total_;
  std::ostream& out_;
  bool visible_;
  Clock::duration interval_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_drawn_{};
  bool drawn_ = false;
};

}  // namespace kv
