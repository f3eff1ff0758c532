#include "requests.hpp"

#include <algorithm>
#include <bit>

namespace kv::emulator {
namespace {

constexpr std::uintptr_t kSectorBytes = 32;  // what global memory is moved in
constexpr std::uintptr_t kNumBanks = 32;     // of shared memory, 4 bytes wide each

}  // namespace

void Requests::begin_launch(unsigned num_threads) {
  warps_.clear();
  warps_.resize((num_threads + 31) / 32);
  counts_.clear();
}

void Requests::add(unsigned thread, Traffic traffic, std::uintptr_t address, std::uint32_t bytes,
                   Where where) {
  Warp& warp = warps_[thread / 32];
  const unsigned lane = thread % 32;
  // One instruction may reach both kinds of memory: the kind is part of the key.
  const std::uint64_t key = where.bits() * kNumTraffic + static_cast<unsigned>(traffic);
  const auto [it, is_new] = warp.index.try_emplace(key, warp.instructions.size());
  if (is_new) warp.instructions.push_back({where, traffic, {}, {}});
  Instruction& instruction = warp.instructions[it->second];
  const std::uint32_t visit = instruction.visits[lane]++;
  if (visit >= instruction.requests.size()) instruction.requests.emplace_back();
  Request& request = instruction.requests[visit];
  request.lanes |= 1u << lane;
  request.bytes = bytes;
  request.address[lane] = address;
}

// Sectors of 32 bytes that any lane touches; at best as many as the distinct bytes fill.
Tally Requests::tally_global(const Request& request) {
  std::array<std::uintptr_t, 32> begins;
  std::size_t count = 0;
  for (unsigned i = 0; i < 32; ++i)
    if (request.lanes >> i & 1) begins[count++] = request.address[i];
  std::sort(begins.begin(), begins.begin() + count);
  Tally tally{1, count * request.bytes, 0, 0};
  std::uintptr_t next_sector = 0;  // first sector that is not counted yet
  std::uintptr_t covered = 0;      // first byte that is not counted yet
  std::uintptr_t distinct_bytes = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uintptr_t end = begins[i] + request.bytes;
    const std::uintptr_t first = std::max(begins[i] / kSectorBytes, next_sector);
    const std::uintptr_t last = (end - 1) / kSectorBytes;
    if (last + 1 > first) tally.units += last + 1 - first;
    next_sector = std::max(next_sector, last + 1);
    const std::uintptr_t from = std::max(begins[i], covered);
    if (end > from) distinct_bytes += end - from;
    covered = std::max(covered, end);
  }
  tally.ideal = (distinct_bytes + kSectorBytes - 1) / kSectorBytes;
  return tally;
}

// Lanes go in groups of 32, 16 or 8 so that a group moves at most 128 bytes. A bank serves one of
// its words a pass, to any number of lanes.
Tally Requests::tally_shared(const Request& request) {
  Tally tally{1, std::popcount(request.lanes) * std::uint64_t{request.bytes}, 0, 0};
  const unsigned group = request.bytes <= 4 ? 32 : request.bytes <= 8 ? 16 : 8;
  for (unsigned first = 0; first < 32; first += group) {
    std::vector<std::uintptr_t> words;
    for (unsigned i = first; i < first + group; ++i) {
      if (!(request.lanes >> i & 1)) continue;
      const std::uintptr_t last = (request.address[i] + request.bytes - 1) / 4;
      for (std::uintptr_t word = request.address[i] / 4; word <= last; ++word)
        words.push_back(word);
    }
    if (words.empty()) continue;
    std::sort(words.begin(), words.end());
    words.erase(std::unique(words.begin(), words.end()), words.end());
    std::array<std::uint64_t, kNumBanks> passes{};
    for (const std::uintptr_t word : words) ++passes[word % kNumBanks];
    tally.units += *std::max_element(passes.begin(), passes.end());
    tally.ideal += (words.size() + kNumBanks - 1) / kNumBanks;
  }
  return tally;
}

void Requests::close(unsigned warp) {
  for (Instruction& instruction : warps_[warp].instructions) {
    if (instruction.requests.empty()) continue;
    Tally& sum = counts_[{instruction.where.bits(), instruction.traffic}];
    const bool global =
        instruction.traffic == Traffic::global_load || instruction.traffic == Traffic::global_store;
    for (const Request& request : instruction.requests)
      sum.add(global ? tally_global(request) : tally_shared(request));
    instruction.requests.clear();
    instruction.visits.fill(0);
  }
}

void Requests::close_all() {
  for (unsigned warp = 0; warp < warps_.size(); ++warp) close(warp);
}

}  // namespace kv::emulator
