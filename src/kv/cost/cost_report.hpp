// What the memory calculator prints and writes.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "kv/cost/roofline.hpp"
#include "kv/report/json.hpp"
#include "kv/report/plot.hpp"

namespace kv {

/// One question to the calculator, with its answers worked out.
struct CostReport {
  Workload workload;            ///< the question
  std::string weights_format;   ///< as the report names it, e.g. "bf16" or "as stored"
  std::int64_t block_size = 1;  ///< tokens of a KV block; 1 = contiguous
  KvBytes per_token;            ///< of all layers, below every window
  KvBytes per_sequence;         ///< exact for the context, in whole blocks
  KvBytes total;                ///< of the batch
  StepCost decode;              ///< of one decode step of the batch
  StepCost prefill;             ///< of the pass over the whole context

  /// \param what           model, cache format, context and batch
  /// \param weights_name   number format of the weights, for the table
  /// \param tokens_a_block tokens of a block; 1 for a contiguous cache
  /// \throws InputError when a number does not fit
  CostReport(Workload what, std::string weights_name, std::int64_t tokens_a_block);
};

/// The GPUs and, behind them, this machine where it was measured.
/// \param gpus    any number
/// \param machine or null
std::vector<Machine> with_machine(std::span<const Machine> gpus, const Machine* machine);

/// The table of sizes, what fits each GPU, and where decode and prefill sit on each roofline.
///
/// \param report  what was computed
/// \param gpus    devices with a memory to fill
/// \param machine this machine measured, or null
std::string cost_text(const CostReport& report, std::span<const Machine> gpus,
                      const Machine* machine);

/// The same facts; bytes are whole numbers.
Json cost_json(const CostReport& report, std::span<const Machine> gpus, const Machine* machine);

/// Attainable rate over arithmetic intensity, with decode and prefill on each roof.
Plot roofline_plot(const CostReport& report, std::span<const Machine> gpus, const Machine* machine);

/// One line for each published shape: layers, heads, bytes per token in fp16, parameters, source.
std::string list_text();

}  // namespace kv
