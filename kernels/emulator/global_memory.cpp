#include "global_memory.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>

#include "asan.hpp"
#include "kv/check.hpp"

namespace kv::emulator {
namespace {

constexpr std::size_t kGuardBytes = 16 * 1024;               // nothing else lies this near
constexpr std::size_t kQuarantineBytes = 64 << 20;           // freed memory that is not reused yet
constexpr std::uintptr_t kNearby = std::uintptr_t{1} << 20;  // farther away is another matter
constexpr std::size_t kAlignment = 256;                      // what cudaMalloc promises

struct Allocation {
  std::size_t bytes = 0;
  void* memory = nullptr;  // guards included
  bool freed = false;
  Site site;
};

struct GlobalMemory {
  std::mutex mutex;
  std::map<std::uintptr_t, Allocation> allocations;  // by address
  std::deque<std::uintptr_t> quarantine;             // freed ones, oldest first
  std::size_t quarantine_bytes = 0;
};

GlobalMemory& global_memory() {
  static auto* instance = new GlobalMemory;  // buffers of static duration may outlive statics
  return *instance;
}

// Under AddressSanitizer the guards and freed memory also stop the fast build.
void poison([[maybe_unused]] void* begin, [[maybe_unused]] std::size_t bytes) {
#ifdef KV_ASAN
  ASAN_POISON_MEMORY_REGION(begin, bytes);
#endif
}

void unpoison([[maybe_unused]] void* begin, [[maybe_unused]] std::size_t bytes) {
#ifdef KV_ASAN
  ASAN_UNPOISON_MEMORY_REGION(begin, bytes);
#endif
}

std::size_t rounded(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

void release_oldest(GlobalMemory& global) {
  const auto it = global.allocations.find(global.quarantine.front());
  global.quarantine.pop_front();
  global.quarantine_bytes -= it->second.bytes;
  unpoison(it->second.memory, rounded(it->second.bytes) + 2 * kGuardBytes);
  std::free(it->second.memory);
  global.allocations.erase(it);
}

}  // namespace

void* allocate_global(std::size_t bytes, Site site) {
  auto& global = global_memory();
  const std::lock_guard lock(global.mutex);
  const std::size_t total = rounded(bytes) + 2 * kGuardBytes;
  void* memory = total < bytes ? nullptr : std::aligned_alloc(kAlignment, total);
  if (!memory) return nullptr;
  unsigned char* data = static_cast<unsigned char*>(memory) + kGuardBytes;
  std::memset(data, 0xff, bytes);  // NaN in every floating-point format, -1 in integers
  poison(memory, kGuardBytes);
  poison(data + bytes, total - kGuardBytes - bytes);
  global.allocations[reinterpret_cast<std::uintptr_t>(data)] = {bytes, memory, false, site};
  return data;
}

void free_global(void* address) {
  if (!address) return;
  auto& global = global_memory();
  const std::lock_guard lock(global.mutex);
  const auto it = global.allocations.find(reinterpret_cast<std::uintptr_t>(address));
  require(it != global.allocations.end(), "freed pointer must come from an allocation");
  require(!it->second.freed, "device memory must be freed once only");
  std::memset(address, 0xff, it->second.bytes);
  poison(address, it->second.bytes);
  it->second.freed = true;
  global.quarantine.push_back(it->first);
  global.quarantine_bytes += it->second.bytes;
  while (global.quarantine_bytes > kQuarantineBytes) release_oldest(global);
}

GlobalRange find_global(std::uintptr_t address) {
  const auto& allocations = global_memory().allocations;
  auto it = allocations.upper_bound(address);
  if (it == allocations.begin()) return {};
  --it;
  if (it->second.freed || address >= it->first + it->second.bytes) return {};
  return {it->first, it->first + it->second.bytes};
}

GlobalFault explain_global(std::uintptr_t address, std::size_t bytes) {
  if (address < 4096) return {"the address is null (or an offset to null)", {}};
  const auto& allocations = global_memory().allocations;
  const auto after = allocations.upper_bound(address);
  std::uintptr_t distance = kNearby;  // to the nearest allocation
  GlobalFault fault;
  const auto describe = [&](std::size_t count, const char* where, const Allocation& found) {
    fault = {
        Text("%zu byte%s %s%s global memory of %zu byte%s, allocated at $2", count, plural(count),
             where, found.freed ? " freed" : "", found.bytes, plural(found.bytes)),
        found.site};
  };
  if (after != allocations.begin()) {
    const auto& [begin, found] = *std::prev(after);
    const std::uintptr_t offset = address - begin;
    if (offset < found.bytes) {
      if (found.freed) {
        describe(offset, "into", found);
      } else {
        describe(offset + bytes - found.bytes, "too many at the end of", found);
      }
      return fault;
    }
    if (offset - found.bytes < distance) {
      distance = offset - found.bytes;
      describe(distance, "past the end of", found);
    }
  }
  if (after != allocations.end() && after->first - address < distance) {
    distance = after->first - address;
    describe(distance, "before the start of", after->second);
  }
  if (distance < kNearby) return fault;
  return {"the address is not device memory (a pointer to host memory?)", {}};
}

}  // namespace kv::emulator
