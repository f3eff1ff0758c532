#include "kv/report/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <utility>

#include "kv/report/table.hpp"

namespace kv {
namespace {

constexpr int kBarColumns = 24;

std::string bar(double fraction) {
  const int filled = static_cast<int>(fraction * kBarColumns + 0.5);
  std::string out;
  for (int i = 0; i < kBarColumns; ++i) out += i < filled ? "█" : "░";
  return out;
}

}  // namespace

Progress::Progress(std::string label, std::int64_t total)
    : Progress(std::move(label), total, std::cerr, ::isatty(STDERR_FILENO) == 1) {
  interval_ = std::chrono::milliseconds(100);
}

Progress::Progress(std::string label, std::int64_t total, std::ostream& out, bool visible)
    : label_(std::move(label)),
      total_(total),
      out_(out),
      visible_(visible),
      interval_(Clock::duration::zero()) {}

Progress::~Progress() { clear(); }

void Progress::update(std::int64_t done) {
  if (!visible_) return;
  const Clock::time_point now = Clock::now();
  if (drawn_ && now - last_drawn_ < interval_) return;
  last_drawn_ = now;
  drawn_ = true;

  // \r returns to the start of the line, ESC[K wipes what the last drawing left behind it.
  const double seconds = std::chrono::duration<double>(now - start_).count();
  if (total_ <= 0) {
    out_ << fmt::format("\r\x1b[K{}  {}  {:.0f} s", label_, with_thousands(done), seconds);
  } else {
    const double fraction =
        std::clamp(static_cast<double>(done) / static_cast<double>(total_), 0.0, 1.0);
    out_ << fmt::format("\r\x1b[K{}  {}  {}/{}", label_, bar(fraction), with_thousands(done),
                        with_thousands(total_));
    if (fraction > 0.0) out_ << fmt::format("  {:.0f} s left", seconds / fraction - seconds);
  }
  out_ << std::flush;
}

void Progress::clear() {
  if (!drawn_) return;
  out_ << "\r\x1b[K" << std::flush;
  drawn_ = false;
}

}  // namespace kv
