#include "launch.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <tuple>

#include "checker.hpp"
#include "emulator.hpp"
#include "kv/fast/thread_team.hpp"
#include "scheduler.hpp"
#include "symbols.hpp"
#include "watchdog.hpp"

namespace kv::emulator {
namespace {

constexpr unsigned kMaxThreadsPerCta = 1024;

// The emulated device: launches run one at a time.
struct State {
  std::mutex mutex;
  LaunchResult last;
  std::map<std::string, Counters> totals;
  std::map<const void*, std::size_t> allowed_shared;
  cudaError_t pending_error = cudaSuccess;
  std::string pending_text;  // of the pending error
  std::string given_text;    // of the error that was asked for last
};

State& state() {
  static State instance;
  return instance;
}

Options options_from_environment() {
  Options options;
  const char* text = std::getenv("KV_EMULATOR_ORDER");
  const std::string order = text ? text : "";
  if (order == "reverse") options.order = Order::reverse;
  if (order.starts_with("random")) options.order = Order::random;
  if (order.starts_with("random:")) options.seed = std::strtoull(order.c_str() + 7, nullptr, 10);
  return options;
}

cudaError_t error_of(Fault fault) {
  switch (fault) {
    case Fault::out_of_bounds:
      return cudaErrorIllegalAddress;
    case Fault::misaligned:
      return cudaErrorMisalignedAddress;
    case Fault::deadlock:
    case Fault::barrier:
    case Fault::no_progress:
      return cudaErrorLaunchTimeout;
    default:
      return cudaErrorLaunchFailure;
  }
}

// The text of the first limit that the launch exceeds, or empty.
std::string exceeded_limit(const LaunchRequest& request, cudaError_t& error) {
  const auto number = [](std::uint64_t value) { return std::to_string(value); };
  const Dim3 cta = request.cta_size;
  const std::uint64_t threads = std::uint64_t{cta.x} * cta.y * cta.z;
  error = cudaErrorInvalidConfiguration;
  if (threads == 0) return "the CTA is empty";
  if (threads > kMaxThreadsPerCta)
    return number(threads) + " threads per CTA; at most " + number(kMaxThreadsPerCta);
  if (cta.z > 64) return "z extent " + number(cta.z) + " of the CTA; at most 64";
  const Dim3 grid = request.grid;
  if (std::uint64_t{grid.x} * grid.y * grid.z == 0) return "the grid is empty";
  if (grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535)
    return "the grid is too large: at most 2^31 - 1, 65535 and 65535 CTAs";
  error = cudaErrorInvalidValue;
  const auto allowed = state().allowed_shared.find(request.kernel);
  const std::size_t limit =
      allowed == state().allowed_shared.end() ? kDefaultSharedBytes : allowed->second;
  if (request.shared_bytes > limit)
    return number(request.shared_bytes) + " bytes of dynamic shared memory; " +
           (request.shared_bytes <= kMaxSharedBytes
                ? "this kernel may have " + number(limit) + ": call allow_shared() first"
                : "the device has " + number(kMaxSharedBytes));
  return {};
}

void add_launch_report(Fault fault, const LaunchRequest& request, const std::string& what) {
  Report report;
  report.fault = fault;
  report.kernel = state().last.kernel;
  report.place = Where(request.site).look_up();
  report.text =
      report.place.text() + ": " + name(fault) + ": kernel " + report.kernel + ": " + what;
  state().last.reports.push_back(std::move(report));
}

// What all workers found, merged so that neither their number nor their luck shows.
class Merge {
 public:
  explicit Merge(std::uint64_t num_ctas) : first_failed_(num_ctas) {}

  // The next CTA to run. None after the first one that was stopped: those before it still run, so
  // that the reports are the same however the CTAs were shared out.
  bool next(std::uint64_t& cta) {
    cta = next_.fetch_add(1);
    return cta < first_failed_.load();
  }

  void failed(std::uint64_t cta) {
    std::uint64_t lowest = first_failed_.load();
    // +1: the failed CTA itself counts.
    while (cta + 1 < lowest && !first_failed_.compare_exchange_weak(lowest, cta + 1)) {
    }
  }

  void add(const std::vector<Finding>& findings, const RequestCounts& counts) {
    const std::lock_guard lock(mutex_);
    for (const Finding& finding : findings) findings_.emplace(finding.cta, finding);
    for (const auto& [key, tally] : counts) counts_[key].add(tally);
  }

  std::vector<Report> reports(const LaunchRequest& request, std::size_t max_reports) {
    std::vector<Report> result;
    std::set<std::tuple<int, std::uint64_t, std::uint64_t>> known;
    for (const auto& [cta, finding] : findings_) {
      if (cta >= first_failed_.load() || result.size() >= max_reports) break;
      const auto pair = std::minmax({finding.where.bits(), finding.other.bits()});
      if (!known.emplace(static_cast<int>(finding.fault), pair.first, pair.second).second) continue;
      result.push_back(make_report(finding, state().last.kernel, request.grid, request.cta_size));
    }
    return result;
  }

  Counters counters() const {
    Counters result;
    result.launches = 1;
    std::vector<Where> wheres;
    for (const auto& [key, tally] : counts_) wheres.push_back(Where::from_bits(key.first));
    Where::look_up_ahead(wheres);
    for (const auto& [key, tally] : counts_) {
      Counters one;
      one.totals[static_cast<int>(key.second)] = tally;
      one.lines.push_back({Where::from_bits(key.first).look_up(), key.second, tally});
      result.add(one);
    }
    return result;
  }

 private:
  std::atomic<std::uint64_t> next_ = 0;
  std::atomic<std::uint64_t> first_failed_;
  std::mutex mutex_;
  std::multimap<std::uint64_t, Finding> findings_;  // by CTA, then in the order they came
  RequestCounts counts_;
};

void run_ctas(const Launch& launch, const Options& options, Merge& merge) {
  Worker& worker = Worker::of_this_thread();
  worker.begin_launch(launch, options);
  {
    const Watchdog watchdog(worker, options.watchdog_seconds);
    for (std::uint64_t cta; merge.next(cta);)
      if (!worker.run_cta(cta)) merge.failed(cta);
  }
  worker.end_launch();
  merge.add(worker.findings(),
            launch.checked ? worker.checker_of_launch().counts() : RequestCounts{});
}

void run(const LaunchRequest& request) {
  const Launch launch{request.kernel,       request.grid,       request.cta_size,
                      request.shared_bytes, request.checked,    request.site,
                      request.entry,        request.parameters, request.parameter_bytes};
  Merge merge(launch.num_ctas());
  const int wanted = options().num_os_threads;
  const auto num_workers = std::min<std::uint64_t>(
      launch.num_ctas(), static_cast<std::uint64_t>(wanted > 0 ? wanted : num_threads()));
  if (num_workers <= 1) {
    run_ctas(launch, options(), merge);
  } else {
    parallel([&](int thread, int) {
      if (static_cast<std::uint64_t>(thread) < num_workers) run_ctas(launch, options(), merge);
    });
  }
  LaunchResult& last = state().last;
  last.reports = merge.reports(request, options().max_reports);
  if (!last.reports.empty()) last.error = error_of(last.reports[0].fault);
  if (!request.checked) return;
  last.counters = merge.counters();
  state().totals[last.kernel].add(last.counters);
}

}  // namespace

Options& options() {
  static Options instance = options_from_environment();
  return instance;
}

const LaunchResult& last_launch() { return state().last; }

bool reported(Fault fault) {
  for (const Report& report : last_launch().reports)
    if (report.fault == fault) return true;
  return false;
}

const std::map<std::string, Counters>& counters_by_kernel() { return state().totals; }
void reset_counters() { state().totals.clear(); }

void launch(const LaunchRequest& request) {
  State& device = state();
  const std::lock_guard lock(device.mutex);
  device.last = {};
  device.last.kernel = function_name(request.kernel);
  cudaError_t limit_error = cudaSuccess;
  if (device.pending_error != cudaSuccess) {
    add_launch_report(
        Fault::unchecked_error, request,
        "an earlier launch failed and its error was never asked for: " + device.pending_text);
    device.last.error = device.pending_error;
    return;
  }
  const std::string limit = exceeded_limit(request, limit_error);
  if (limit.empty()) {
    run(request);
  } else {
    add_launch_report(Fault::launch_limit, request, limit);
    device.last.error = limit_error;
  }
  if (device.last.error == cudaSuccess) return;
  device.pending_error = device.last.error;
  device.pending_text.clear();
  for (const Report& report : device.last.reports)
    device.pending_text += (device.pending_text.empty() ? "" : "\n") + report.text;
}

cudaError_t allow_shared(const void* kernel, std::size_t bytes) {
  if (bytes > kMaxSharedBytes) return cudaErrorInvalidValue;
  state().allowed_shared[kernel] = bytes;
  return cudaSuccess;
}

}  // namespace kv::emulator

cudaError_t cudaPeekAtLastError() { return kv::emulator::state().pending_error; }

cudaError_t cudaGetLastError() {
  auto& device = kv::emulator::state();
  const cudaError_t error = device.pending_error;
  device.given_text = error == cudaSuccess ? "no error" : device.pending_text;
  device.pending_error = cudaSuccess;
  return error;
}

cudaError_t cudaDeviceSynchronize() { return kv::emulator::state().pending_error; }

const char* cudaGetErrorString(cudaError_t error) {
  const auto& device = kv::emulator::state();
  if (error == cudaSuccess) return "no error";
  return device.given_text.empty() ? "CUDA error" : device.given_text.c_str();
}
