// How host code and tests talk to the emulator: options before a launch, findings after it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "counters.hpp"
#include "report.hpp"
#include "runtime_api.hpp"

/// Runs CUDA kernels on the CPU, one fiber per CUDA thread.
namespace kv::emulator {

/// In which order the threads of a CTA run between two barriers.
enum class Order {
  forward,  ///< by thread number
  reverse,  ///< the last thread first
  random,   ///< shuffled again for each round, from the seed
};

/// What can be chosen. The first use reads KV_EMULATOR_ORDER: forward, reverse or random:SEED.
struct Options {
  Order order = Order::forward;  ///< of the threads of a CTA
  std::uint64_t seed = 1;        ///< of the random order
  int num_os_threads = 0;        ///< 0: as many as the thread team has
  double watchdog_seconds = 20;  ///< processor time that a thread may run without progress
  std::size_t max_reports = 16;  ///< different findings kept per launch
};

/// The options of the launches to come.
Options& options();

/// What the last launch of the process left behind.
struct LaunchResult {
  std::string kernel;               ///< name with template arguments
  cudaError_t error = cudaSuccess;  ///< as cudaGetLastError() gave it
  std::vector<Report> reports;      ///< ordered by CTA; empty when all was well
  Counters counters;                ///< only of the checked build
};

/// \return the result of the launch that finished last
const LaunchResult& last_launch();

/// \return whether the last launch reported `fault`
bool reported(Fault fault);

}  // namespace kv::emulator
