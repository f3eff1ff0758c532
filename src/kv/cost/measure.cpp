// What this machine can do: a read of memory that no cache holds, and multiply-adds that never
// leave the registers.
#include <unistd.h>

#include <Eigen/Core>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "kv/cost/roofline.hpp"
#include "kv/thread_team.hpp"

namespace kv {
namespace {

using Clock = std::chrono::steady_clock;
using Packet = Eigen::internal::packet_traits<float>::type;  // as wide as this build's registers

constexpr int kLanes = Eigen::internal::packet_traits<float>::size;
// Multiply-adds in flight: two units with a latency of four or five cycles need ten; the rest
// covers uneven scheduling. All fit into 16 registers with the two factors.
constexpr int kChains = 12;
constexpr int kRounds = 6;
// Far more than most last-level caches hold, little enough for a small machine.
constexpr std::int64_t kBufferBytes = std::int64_t{256} << 20;

double seconds_of(const std::function<void()>& work) {
  const auto start = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Sums in four chains, so that the additions never wait for one another.
std::uint64_t sum_of(const std::uint64_t* words, std::int64_t num_words) {
  std::uint64_t sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < num_words; ++i) sum += words[i];
  return sum;
}

double read_bandwidth() {
  constexpr std::int64_t kWords = kBufferBytes / 8;
  // Not initialised here: each thread touches its own part first, so that it lies near to it.
  const std::unique_ptr<std::uint64_t[]> buffer(new std::uint64_t[kWords]);
  std::vector<std::uint64_t> sums(static_cast<std::size_t>(num_threads()) *
                                  8);  // a cache line each
  const auto part = [&](int thread, int threads) {
    const std::int64_t begin = kWords * thread / threads, end = kWords * (thread + 1) / threads;
    return std::pair(buffer.get() + begin, end - begin);
  };
  parallel([&](int thread, int threads) {
    const auto [words, num_words] = part(thread, threads);
    std::fill_n(words, num_words, 1u);
  });
  double best = std::numeric_limits<double>::infinity();
  for (int round = 0; round < kRounds; ++round)
    best = std::min(best, seconds_of([&] {
                      parallel([&](int thread, int threads) {
                        const auto [words, num_words] = part(thread, threads);
                        sums[static_cast<std::size_t>(thread) * 8] += sum_of(words, num_words);
                      });
                    }));
  std::uint64_t total = 0;
  for (const std::uint64_t sum : sums) total += sum;
  // The sums are used, so the reads cannot be left out.
  require(total == static_cast<std::uint64_t>(kWords) * kRounds, "the buffer was read");
  return static_cast<double>(kBufferBytes) / best;
}

// acc = acc * factor + term, `steps` times in each chain; the values converge to 1.
float multiply_add(std::int64_t steps, float factor, float term) {
  using namespace Eigen::internal;
  const Packet a = pset1<Packet>(factor), b = pset1<Packet>(term);
  Packet acc[kChains];
  for (int c = 0; c < kChains; ++c) acc[c] = pset1<Packet>(static_cast<float>(c));
  for (std::int64_t i = 0; i < steps; ++i)
    for (int c = 0; c < kChains; ++c) acc[c] = pmadd(acc[c], a, b);
  float sum = 0;
  for (int c = 0; c < kChains; ++c) sum += predux(acc[c]);
  return sum;
}

double multiply_add_peak() {
  constexpr std::int64_t kSteps = 4'000'000;  // about 20 ms
  std::vector<float> sums(static_cast<std::size_t>(num_threads()) * 16);
  // Read at run time, so that the loop cannot be worked out by the compiler.
  const volatile float factor = 0.5f, term = 0.5f;
  double best = 0;
  for (int round = 0; round < kRounds; ++round) {
    int threads = 1;
    const double seconds = seconds_of([&] {
      parallel([&](int thread, int num) {
        if (thread == 0) threads = num;
        sums[static_cast<std::size_t>(thread) * 16] += multiply_add(kSteps, factor, term);
      });
    });
    best = std::max(best, 2.0 * kLanes * kChains * kSteps * threads / seconds);
  }
  return best;
}

}  // namespace

Device measure_this_machine() {
  Device device;
  device.name = "this machine";
  device.memory_bytes = static_cast<double>(::sysconf(_SC_PHYS_PAGES)) *
                        static_cast<double>(::sysconf(_SC_PAGE_SIZE));
  device.bytes_per_second = read_bandwidth();
  device.flops_per_second = multiply_add_peak();
  device.source = "measured, fp32, " + std::to_string(num_threads()) + " threads";
  return device;
}

}  // namespace kv
