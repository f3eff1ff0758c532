// What it saves to let query heads share K and V: the tables of chapter 4.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <span>
#include <string>
#include <vector>

#include "kv/cost/published.hpp"
#include "kv/cost/roofline.hpp"
#include "kv/generate.hpp"
#include "kv/model/weights.hpp"
#include "kv/report/options.hpp"

namespace kv {

/// What one decode step of such a model costs.
struct SharedHeadsCost {
  int num_kv_heads = 0;                 ///< in each layer
  int group_size = 0;                   ///< query heads that read one KV head
  double relative_cache = 0.0;          ///< of the cache with a KV head for each query head
  std::int64_t kv_bytes_per_token = 0;  ///< of all layers
  StepCost attention;                   ///< q.k and p.v, on K and V alone; no weights
  StepCost step;                        ///< the whole step
};

/// What attention of a decode step asks for: q.k and p.v on K and V alone, without weights.
///
/// It does 4 * num_q_heads * head_dim operations a cached token and reads
/// 2 * num_kv_heads * head_dim elements for them: in 16 bit that is group_size operations a byte,
/// whatever the context and the batch, because no two sequences share a cache.
///
/// \param heads      of one layer
/// \param format     of the cache
/// \param num_tokens cached tokens that are read, of all layers and sequences together
StepCost attention_cost(const HeadConfig& heads, const KvFormat& format, std::int64_t num_tokens);

/// One new token for each of `batch` sequences of `context` tokens; weights in 16 bit.
std::vector<SharedHeadsCost> shared_heads_costs(const PublishedModel& model,
                                                std::span<const int> num_kv_heads,
                                                const KvFormat& format, std::int64_t context,
                                                std::int64_t batch);

/// The relative cache, what a step reads, and where its attention sits on each device's roofline.
std::string shared_heads_text(const PublishedModel& model, std::span<const SharedHeadsCost> costs,
                              const KvFormat& format, std::int64_t context, std::int64_t batch,
                              std::span<const Machine> devices);

/// A model that runs here, with another number of KV heads.
struct HeadsRun {
  int num_kv_heads = 0;                 ///< in each layer
  std::int64_t kv_bytes_per_token = 0;  ///< of all layers
  std::int64_t bytes_read = 0;          ///< of K and V in the last step, counted
  std::int64_t bytes_predicted = 0;     ///< KV bytes per token times the tokens
  double logit_difference = 0.0;        ///< largest, from the model as it is
  double bound = 0.0;  ///< what rounding allows: for repeated heads, which are exact
};

/// Runs the tokens through the model with every number of KV heads that it can be given, most
/// first: the last token as a decode step behind the others.
///
/// \param model    weights; converted anew for every number of KV heads
/// \param tokens   at least two
/// \param kv_dtype number format of the caches
std::vector<HeadsRun> run_with_kv_heads(const Model& model, std::span<const TokenId> tokens,
                                        KvDType kv_dtype);

/// Prints all tables of the chapter; where --svg asks for it, draws the family's losses.
///
/// \param model   as loaded
/// \param run     finished; with fewer than two tokens the model's own table is left out
/// \param options --kv-dtype and --svg are read
/// \param family  path of family.csv; when it is not there, a line says so
/// \param out     receives the tables
/// \throws std::runtime_error, after printing, when a count differs from its closed form or
/// repeated
///         heads do not give the same logits; InputError when --svg asks for a family that is not
///         there
void show_shared_heads(const Model& model, const Generation& run, const ChapterOptions& options,
                       const std::string& family, std::ostream& out);

}  // namespace kv
