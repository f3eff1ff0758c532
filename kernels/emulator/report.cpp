#include "report.hpp"

#include <cstdio>
#include <deque>
#include <mutex>

#include "symbols.hpp"

namespace kv::emulator {
namespace {

constexpr std::uint64_t kSiteBit = std::uint64_t{1} << 63;

// All sites that were ever met. There are as many as such calls in the kernels: a few hundred.
struct Sites {
  std::mutex mutex;
  std::deque<Site> list;
};

Sites& sites() {
  static Sites instance;
  return instance;
}

std::uint64_t number_of(const Site& site) {
  // Every CTA barrier comes through here: remember the last answer.
  thread_local Site last;
  thread_local std::uint64_t last_number = 0;
  if (last.file == site.file && last.line == site.line) return last_number;
  const std::lock_guard lock(sites().mutex);
  std::uint64_t number = 0;
  while (number < sites().list.size() &&
         !(sites().list[number].file == site.file && sites().list[number].line == site.line))
    ++number;
  if (number == sites().list.size()) sites().list.push_back(site);
  last = site;
  last_number = number;
  return number;
}

// Code of the emulator that was inlined into a kernel is not what its author wants to see, nor are
// the wrappers of single instructions: the line that calls them says more.
bool is_of_the_author(const std::string& file) {
  return file.find("kernels/emulator/") == std::string::npos &&
         file.find("/ptx.cuh") == std::string::npos &&
         file.find("/vector_access.cuh") == std::string::npos && !file.starts_with("/usr/");
}

std::string index_text(Index3 index) {
  char text[48];
  std::snprintf(text, sizeof(text), "(%u,%u,%u)", index.x, index.y, index.z);
  return text;
}

void replace(std::string& text, const std::string& mark, const std::string& with) {
  for (std::size_t at; (at = text.find(mark)) != std::string::npos;)
    text.replace(at, mark.size(), with);
}

}  // namespace

const char* name(Fault fault) {
  switch (fault) {
    case Fault::race:
      return "race on shared memory";
    case Fault::uninitialized_read:
      return "read of shared memory that was never written";
    case Fault::out_of_bounds:
      return "access out of bounds";
    case Fault::misaligned:
      return "misaligned access";
    case Fault::async_copy:
      return "asynchronous copy not waited for";
    case Fault::barrier:
      return "barrier not reached by all threads";
    case Fault::collective:
      return "wrong warp operation";
    case Fault::deadlock:
      return "deadlock";
    case Fault::no_progress:
      return "no progress";
    case Fault::launch_limit:
      return "launch limit";
    case Fault::unchecked_error:
      return "unchecked launch error";
  }
  return "unknown fault";
}

Where::Where(const Site& site) : bits_(kSiteBit | number_of(site)) {}

void Where::look_up_ahead(std::span<const Where> wheres) {
  std::vector<std::uintptr_t> addresses;
  for (const Where& where : wheres)
    if (where.bits_ != 0 && !(where.bits_ & kSiteBit)) addresses.push_back(where.bits_ - 1);
  learn_source_lines(addresses);
}

Place Where::look_up() const {
  if (bits_ == 0) return {};
  if (bits_ & kSiteBit) {
    const std::lock_guard lock(sites().mutex);
    const Site& site = sites().list[bits_ & ~kSiteBit];
    return {site.file ? site.file : "", site.line};
  }
  // A return address belongs to the instruction after the call.
  const std::vector<SourceLine> lines = source_lines(bits_ - 1);
  for (const SourceLine& line : lines)
    if (is_of_the_author(line.file)) return {line.file, line.line};
  return lines.empty() ? Place{} : Place{lines[0].file, lines[0].line};
}

std::string Place::text() const {
  if (line == 0) return "(unknown line)";
  const std::size_t slash = file.rfind('/');
  return (slash == std::string::npos ? file : file.substr(slash + 1)) + ":" + std::to_string(line);
}

Index3 index_of(std::uint64_t linear, Dim3 size) {
  return {static_cast<unsigned>(linear % size.x), static_cast<unsigned>(linear / size.x % size.y),
          static_cast<unsigned>(linear / size.x / size.y)};
}

Report make_report(const Finding& finding, const std::string& kernel, Dim3 grid, Dim3 cta_size) {
  Report report;
  report.fault = finding.fault;
  report.kernel = kernel;
  report.cta = index_of(finding.cta, grid);
  report.thread = index_of(finding.thread, cta_size);
  report.place = finding.where.look_up();
  report.other = finding.other.look_up();
  std::string detail = finding.detail.c_str();
  replace(detail, "$2", report.other.text());
  replace(detail, "$other", "thread " + index_text(index_of(finding.other_thread, cta_size)));
  report.text = report.place.text() + ": " + name(finding.fault) + ": kernel " + kernel + ", CTA " +
                index_text(report.cta) + ", thread " + index_text(report.thread) + ": " + detail;
  return report;
}

}  // namespace kv::emulator
