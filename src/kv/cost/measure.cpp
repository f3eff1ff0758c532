// What this machine can do: a read of memory that no cache holds, and multiply-adds that never
// leave the registers.
#include <unistd.h>

#include <Eigen/Core>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kv/check.hpp"
#include "kv/cost/roofline.hpp"
#include "kv/fast/thread_team.hpp"

namespace kv {
namespace {

using Clock = std::chrono::steady_clock;
using Packet = Eigen::internal::packet_traits<float>::type;  // as wide as this build's registers

constexpr int kLanes = Eigen::internal::packet_traits<float>::size;
// Multiply-adds in flight: two units with a latency of four or five cycles need ten; the rest
// covers uneven scheduling. All fit into 16 registers with the two factors.
constexpr int kChains = 12;
// Rounds of a few milliseconds, the best of which counts: some of them run undisturbed even when
// other programs want the processors.
constexpr double kSecondsEach = 0.3;
// Far more than most last-level caches hold, little enough for a small machine. A round reads one
// part; until its turn comes again the others have driven it out of the caches.
constexpr std::int64_t kBufferBytes = std::int64_t{256} << 20;
constexpr std::int64_t kNumParts = 8;

double seconds_of(const std::function<void()>& work) {
  const auto start = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Eight chains, so that additions never wait for one another, vectorised or not.
std::uint64_t sum_of(std::span<const std::uint64_t> words) {
  std::uint64_t chains[8] = {};
  std::size_t i = 0;
  for (; i + 8 <= words.size(); i += 8)
    for (std::size_t c = 0; c < 8; ++c) chains[c] += words[i + c];
  for (; i < words.size(); ++i) chains[0] += words[i];
  return std::accumulate(std::begin(chains), std::end(chains), std::uint64_t{0});
}

// Calls round(0), round(1), ... for kSecondsEach, at least kNumParts times.
// \return seconds of the fastest call
double fastest_of(const std::function<void(std::int64_t)>& round) {
  double best = std::numeric_limits<double>::infinity(), spent = 0;
  for (std::int64_t i = 0; i < kNumParts || spent < kSecondsEach; ++i) {
    const double seconds = seconds_of([&] { round(i); });
    best = std::min(best, seconds);
    spent += seconds;
  }
  return best;
}

double read_bandwidth() {
  constexpr std::int64_t kWords = kBufferBytes / 8, kPartWords = kWords / kNumParts;
  // Not initialised here: each thread touches its own share first, so that it lies near to it.
  const std::unique_ptr<std::uint64_t[]> buffer(new std::uint64_t[kWords]);
  std::vector<std::uint64_t> sums(static_cast<std::size_t>(num_threads()) *
                                  8);  // a cache line each
  const auto share = [&](std::int64_t part, int thread, int threads) {
    const std::int64_t begin = kPartWords * thread / threads;
    const std::int64_t end = kPartWords * (thread + 1) / threads;
    return std::span(buffer.get() + part * kPartWords + begin,
                     static_cast<std::size_t>(end - begin));
  };
  parallel([&](int thread, int threads) {
    for (std::int64_t part = 0; part < kNumParts; ++part)
      std::ranges::fill(share(part, thread, threads), 1u);
  });
  std::int64_t num_rounds = 0;
  const double seconds = fastest_of([&](std::int64_t round) {
    ++num_rounds;
    parallel([&](int thread, int threads) {
      sums[static_cast<std::size_t>(thread) * 8] +=
          sum_of(share(round % kNumParts, thread, threads));
    });
  });
  std::uint64_t total = 0;
  for (const std::uint64_t sum : sums) total += sum;
  // The sums are used, so the reads cannot be left out.
  require(total == static_cast<std::uint64_t>(kPartWords * num_rounds), "the buffer was read");
  return static_cast<double>(kBufferBytes / kNumParts) / seconds;
}

// acc += a * b, `steps` times in each chain. The accumulator is the addend, as in a product of
// matrices: that is the form which keeps it in its register.
// The chains are written out (C = 0, 1, ...), because only then do all compilers keep them there.
template <std::size_t... C>
float multiply_add(std::int64_t steps, float a_value, float b_value, std::index_sequence<C...>) {
  using namespace Eigen::internal;
  const Packet a = pset1<Packet>(a_value), b = pset1<Packet>(b_value);
  Packet acc[] = {pset1<Packet>(static_cast<float>(C))...};
  for (std::int64_t i = 0; i < steps; ++i) ((acc[C] = pmadd(a, b, acc[C])), ...);
  return (predux(acc[C]) + ...);
}

double multiply_add_peak() {
  constexpr std::int64_t kSteps = 400'000;  // about 2 ms
  std::vector<float> sums(static_cast<std::size_t>(num_threads()) * 16);
  // Read at run time, so that the loop cannot be worked out by the compiler.
  const volatile float a = 0.5f, b = 0.25f;
  int num_running = 1;
  const double seconds = fastest_of([&](std::int64_t) {
    parallel([&](int thread, int threads) {
      if (thread == 0) num_running = threads;
      sums[static_cast<std::size_t>(thread) * 16] +=
          multiply_add(kSteps, a, b, std::make_index_sequence<kChains>{});
    });
  });
  return 2.0 * kLanes * kChains * kSteps * num_running / seconds;
}

}  // namespace

Machine measure_this_machine() {
  Machine device;
  device.name = "this machine";
  device.memory_bytes = static_cast<double>(::sysconf(_SC_PHYS_PAGES)) *
                        static_cast<double>(::sysconf(_SC_PAGE_SIZE));
  device.bytes_per_second = read_bandwidth();
  device.flops_per_second = multiply_add_peak();
  device.source = "measured, fp32, " + std::to_string(num_threads()) + " threads";
  return device;
}

}  // namespace kv
