// What this machine can do: a read of memory that no cache holds, and multiply-adds that never
// leave the registers.
//
// Both loops work on vectors as wide as the registers. Left to a compiler, a loop over single words
// can turn into code that is slower than the programs it is meant to bound: with AVX-512 clang
// gathered the words of each chain one by one, and found an eighth of the bandwidth.
#include "kv/cost/measure.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <string>

#include "kv/check.hpp"
#include "kv/cost/roofline.hpp"
#include "kv/fast/thread_team.hpp"
#include "kv/fast/vec.hpp"

namespace kv {
namespace {

using Clock = std::chrono::steady_clock;
using simd::BitVec;
using simd::kWidth;
using simd::Vec;

// Loads under way, each added to a sum of its own, so that additions never wait for one another.
constexpr int kLoads = 8;
// Multiply-adds under way: two units with a latency of four or five cycles need ten; the rest
// covers uneven scheduling. All fit into 16 registers with the two factors.
constexpr int kChains = 12;
// Rounds of a few milliseconds, the best of which counts: some of them run undisturbed even when
// other programs want the processors.
constexpr double kSecondsEach = 0.3;

double physical_bytes() {
  return static_cast<double>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<double>(::sysconf(_SC_PAGE_SIZE));
}

// What caches keep of a part until its turn comes again would pass for memory. So the parts
// together are twice what caches could hold, even if every thread had a last-level cache to itself:
// the system names the size of one, and a processor may have several.
std::int64_t cold_bytes() {
  constexpr std::int64_t kLeast = std::int64_t{256} << 20;  // also where no size is known
  constexpr std::int64_t kMost = std::int64_t{2} << 30;     // five times what large servers have
  std::int64_t cache = 0;
#ifdef _SC_LEVEL3_CACHE_SIZE
  cache = std::max<std::int64_t>(cache, ::sysconf(_SC_LEVEL3_CACHE_SIZE));
#endif
  const auto affordable = static_cast<std::int64_t>(physical_bytes() / 8);
  return std::min({std::max(kLeast, 2 * cache * num_threads()), kMost, affordable});
}

// Shares of a part are whole pages: any number of streams and any width of register divides them.
constexpr std::int64_t kPageLen = 4096 / sizeof(std::uint32_t);

// Calls body(begin, end) on every thread of the team, with the words of a part that are its share.
void for_shares(std::int64_t part_len,
                const std::function<void(std::int64_t, std::int64_t)>& body) {
  parallel([&](int thread, int threads) {
    const std::int64_t num_pages = part_len / kPageLen;
    body(num_pages * thread / threads * kPageLen, num_pages * (thread + 1) / threads * kPageLen);
  });
}

// The sum, modulo 2^32, of the words at kStreams places, `stream_len` words each, which follow each
// other.
template <int kStreams>
std::uint32_t sum_of(const std::uint32_t* words, std::int64_t stream_len) {
  constexpr int kNeighbours = kLoads / kStreams;
  BitVec sums[kStreams][kNeighbours] = {};
  for (std::int64_t i = 0; i < stream_len; i += kNeighbours * kWidth)
    for (int s = 0; s < kStreams; ++s)
      for (int n = 0; n < kNeighbours; ++n)
        sums[s][n] += simd::load_as<BitVec>(words + s * stream_len + i + n * kWidth);
  BitVec total = {};
  for (const auto& stream : sums)
    for (const BitVec& sum : stream) total += sum;
  std::uint32_t sum = 0;
  for (int lane = 0; lane < kWidth; ++lane) sum += total[lane];
  return sum;
}

std::uint32_t sum_of(const std::uint32_t* words, std::int64_t len, int streams) {
  if (streams == 1) return sum_of<1>(words, len);
  if (streams == 2) return sum_of<2>(words, len / 2);
  if (streams == 4) return sum_of<4>(words, len / 4);
  if (streams == 8) return sum_of<8>(words, len / 8);
  throw std::invalid_argument("memory is read in 1, 2, 4 or 8 places at once");
}

// c = c * a + b, `steps` times in each chain; no part of it can be worked out before the loop.
float multiply_add_chains(std::int64_t steps, float a_value, float b_value) {
  const Vec a = simd::broadcast(a_value), b = simd::broadcast(b_value);
  Vec chains[kChains];  // all different: equal ones could be computed once
  for (int i = 0; i < kChains; ++i) chains[i] = simd::broadcast(static_cast<float>(i));
  for (std::int64_t step = 0; step < steps; ++step)
    for (Vec& c : chains) c = c * a + b;
  Vec total = {};
  for (const Vec& c : chains) total += c;
  return simd::sum(total);
}

// Calls amount_of(0), amount_of(1), ... for kSecondsEach, at least kNumParts times.
// \return the most that a call did in a second
double best_rate(const std::function<double(int)>& amount_of) {
  double best = 0, spent = 0;
  for (int round = 0; round < ColdMemory::kNumParts || spent < kSecondsEach; ++round) {
    const auto start = Clock::now();
    const double amount = amount_of(round);
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    best = std::max(best, amount / seconds);
    spent += seconds;
  }
  return best;
}

}  // namespace

// Each thread writes what it will read, so that the pages are there before anything is timed, and
// lie near to it. The words of a part are 0, 1, 2, ...: their sum shows that each was read once.
ColdMemory::ColdMemory() : words_(kNumParts, cold_bytes() / 4 / kNumParts / kPageLen * kPageLen) {
  for_shares(words_.cols(), [&](std::int64_t begin, std::int64_t end) {
    for (int part = 0; part < kNumParts; ++part)
      std::iota(&words_(part, begin), &words_(part, begin) + (end - begin),
                static_cast<std::uint32_t>(begin));
  });
}

void ColdMemory::read(int streams, int part) const {
  require(part >= 0 && part < kNumParts, "there is no such part");
  for_shares(words_.cols(), [&](std::int64_t begin, std::int64_t end) {
    const std::uint32_t sum = sum_of(&words_(part, begin), end - begin, streams);
    const std::int64_t expected = (end * (end - 1) - begin * (begin - 1)) / 2;
    // As the sum is used, the reads cannot be left out.
    require(sum == static_cast<std::uint32_t>(expected), "every word is read once");
  });
}

double multiply_add() {
  constexpr std::int64_t kSteps = 400'000;  // about 2 ms
  // Read at run time, so that the loop cannot be worked out by the compiler.
  const volatile float a = 0.5f, b = 0.25f;
  parallel([&](int, int) {
    const volatile float sum = multiply_add_chains(kSteps, a, b);
    static_cast<void>(sum);
  });
  return 2.0 * kWidth * kChains * kSteps * num_threads();
}

Machine measure_this_machine() {
  Machine device;
  device.name = "this machine";
  device.memory_bytes = physical_bytes();
  const ColdMemory memory;
  device.bytes_per_second = best_rate([&](int round) {
    memory.read(ColdMemory::kStreams[round % ColdMemory::kStreams.size()],
                round % ColdMemory::kNumParts);
    return static_cast<double>(memory.part_bytes());
  });
  device.flops_per_second = best_rate([](int) { return multiply_add(); });
  device.source = "measured, fp32, " + std::to_string(num_threads()) + " threads";
  return device;
}

}  // namespace kv
