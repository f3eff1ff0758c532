// Runs one step of the ladder, compiled with one planted bug, and says which checks notice it.
//
//   mutant_NAME STEP CHECK   status 0 when CHECK is among those that notice, else 1
//   CHECK: numbers           the result differs from the oracle
//          reverse           the same, but only when threads run in reverse order
//          error             a launch fails in the fast build
//          a fault's name    the checked build reports it, e.g. "race on shared memory"
//          nothing           no check may notice: for the kernel without a bug
#include <cmath>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "kernels/attention_problem.hpp"
#include "kernels/ladder_steps.hpp"
#include "kernels/paged_problem.hpp"

namespace {

using kv::AttentionStep;
using kv::emulator::Order;

/// Check -> the first thing that it noticed.
using Findings = std::map<std::string, std::string>;

// Steps that cut decode into parts.
bool splits(AttentionStep step) { return step >= AttentionStep::split_kv; }

// Small, but with every feature: groups, several tiles and splits, ragged batches, rows without
// keys, empty sequences, tails, sharp scores.
std::vector<kv_test::AttentionProblem> problems(AttentionStep step) {
  using kv_test::Lengths;
  std::vector<std::vector<Lengths>> batches = {
      {{70, 70}}, {{70, 17}}, {{17, 133}}, {{1, 130}, {1, 67}, {1, 0}, {1, 1}}, {{0, 5}, {3, 64}}};
  // Step 5 gives every query row CTAs of its own: a few rows say as much.
  if (splits(step)) batches = {{{5, 70}}, {{7, 3}}, {{1, 130}, {1, 67}, {1, 0}, {1, 1}}};
  // From step 6 on: some without tensor cores, some with them.
  const auto dtype_of = [step](unsigned seed) {
    const bool both = step > AttentionStep::split_kv;
    return step == AttentionStep::tensor_core || (both && seed / 2 % 2 == 0) ? kv::DType::f16
                                                                             : kv::DType::f32;
  };
  std::vector<kv_test::AttentionProblem> list;
  unsigned seed = 1;
  for (const auto& lengths : batches) {
    for (const bool causal : {true, false}) {
      const float spread = seed % 2 == 0 ? 1.0f : 8.0f;
      list.push_back(kv_test::random_problem({{4, 2, 64}, dtype_of(seed), 0.125f, causal}, lengths,
                                             seed, spread));
      ++seed;
    }
  }
  // Scores far below zero: q and k point in opposite directions.
  const std::vector<Lengths> low = {{5, 40}};
  list.push_back(kv_test::random_problem({{4, 2, 64}, dtype_of(seed), 0.125f, true}, low, seed));
  for (float& x : list.back().q) x = -std::fabs(x) * 1000.0f;
  for (float& x : list.back().k) x = std::fabs(x);
  return list;
}

kv_test::AttentionResult run_step(const kv_test::AttentionProblem& problem, AttentionStep step,
                                  kv::Backend backend, const kv::SplitOptions& split) {
  if (step == AttentionStep::paged)
    return kv_test::run_in_blocks(problem, 16, backend, true, split);
  return run(problem, step, backend, true, split);
}

std::string numbers(const kv_test::AttentionProblem& problem, AttentionStep step,
                    const kv::SplitOptions& split) {
  const bool rounds = step == AttentionStep::tensor_core || step > AttentionStep::split_kv;
  const auto looseness = rounds && problem.shape.kv_dtype == kv::DType::f16 ? kv_test::kRoundedToF16
                                                                            : kv_test::Looseness{};
  return oracle_difference(problem, run_step(problem, step, kv::Backend::emulated, split),
                           looseness);
}

void run_fast(const kv_test::AttentionProblem& problem, AttentionStep step, Findings& findings) {
  for (const int chunk : {0, 16}) {
    for (const Order order : {Order::forward, Order::reverse}) {
      kv::emulator::options().order = order;
      try {
        const std::string difference = numbers(problem, step, {.fixed_chunk = chunk});
        if (!difference.empty())
          findings.emplace(order == Order::forward ? "numbers" : "reverse", difference);
      } catch (const std::exception& error) {
        findings.emplace("error", error.what());
      }
    }
    if (!splits(step)) break;  // the others have no chunks
  }
}

void run_checked(const kv_test::AttentionProblem& problem, AttentionStep step, Findings& findings) {
  kv::emulator::options() = {};
  try {
    run_step(problem, step, kv::Backend::checked, {.fixed_chunk = 16});
  } catch (const std::exception&) {  // the reports say more
  }
  for (const auto& report : kv::emulator::last_launch().reports)
    findings.emplace(kv::emulator::name(report.fault), report.text);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: " << argv[0] << " STEP CHECK\n";
    return 2;
  }
  const auto step = static_cast<AttentionStep>(std::atoi(argv[1]));
  const std::string check = argv[2];
  Findings findings;
  for (const kv_test::AttentionProblem& problem : problems(step)) {
    run_fast(problem, step, findings);
    run_checked(problem, step, findings);
  }
  // What every order finds is no matter of the order.
  if (findings.contains("numbers")) findings.erase("reverse");
  for (const auto& [name, first] : findings) std::cout << name << ": " << first << "\n";
  if (findings.empty()) std::cout << "nothing\n";
  return findings.contains(check) || (check == "nothing" && findings.empty()) ? 0 : 1;
}
