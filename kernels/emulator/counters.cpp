#include "counters.hpp"

#include <algorithm>
#include <cstdio>
#include <ostream>
#include <tuple>

namespace kv::emulator {

void Tally::add(const Tally& other) {
  requests += other.requests;
  bytes += other.bytes;
  units += other.units;
  ideal += other.ideal;
}

std::uint64_t Counters::global_bytes() const {
  return 32 * (of(Traffic::global_load).units + of(Traffic::global_store).units);
}

double Counters::sectors_per_request(Traffic traffic) const {
  const Tally& tally = of(traffic);
  return tally.requests == 0 ? 0.0 : double(tally.units) / double(tally.requests);
}

std::uint64_t Counters::bank_conflicts() const {
  const Tally& load = of(Traffic::shared_load);
  const Tally& store = of(Traffic::shared_store);
  return load.units - load.ideal + store.units - store.ideal;
}

void Counters::add(const Counters& other) {
  launches += other.launches;
  for (int i = 0; i < kNumTraffic; ++i) totals[i].add(other.totals[i]);
  for (const LineTally& line : other.lines) {
    const auto same = std::find_if(lines.begin(), lines.end(), [&](const LineTally& mine) {
      return mine.place.line == line.place.line && mine.place.file == line.place.file &&
             mine.traffic == line.traffic;
    });
    if (same == lines.end()) {
      lines.push_back(line);
    } else {
      same->tally.add(line.tally);
    }
  }
  std::sort(lines.begin(), lines.end(), [](const LineTally& a, const LineTally& b) {
    return std::tie(a.place.file, a.place.line, a.traffic) <
           std::tie(b.place.file, b.place.line, b.traffic);
  });
}

void print(std::ostream& out, const std::string& kernel, const Counters& counters) {
  static constexpr const char* kNames[kNumTraffic] = {"global load", "global store", "shared load",
                                                      "shared store"};
  char text[256];
  out << kernel << ": " << counters.launches
      << (counters.launches == 1 ? " launch, " : " launches, ") << counters.global_bytes()
      << " bytes of global memory moved, " << counters.bank_conflicts() << " bank conflicts\n";
  std::snprintf(text, sizeof(text), "  %-28s %-12s %12s %14s %12s %8s\n", "line", "memory",
                "requests", "bytes asked", "per request", "at best");
  out << text;
  for (const LineTally& line : counters.lines) {
    const Tally& tally = line.tally;
    std::snprintf(
        text, sizeof(text), "  %-28s %-12s %12llu %14llu %12.2f %8.2f\n", line.place.text().c_str(),
        kNames[static_cast<int>(line.traffic)], static_cast<unsigned long long>(tally.requests),
        static_cast<unsigned long long>(tally.bytes), double(tally.units) / double(tally.requests),
        double(tally.ideal) / double(tally.requests));
    out << text;
  }
  out << "  (sectors of 32 bytes per global request, passes over the banks per shared request)\n";
}

}  // namespace kv::emulator
