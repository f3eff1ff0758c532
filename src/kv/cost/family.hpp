// The family of chapter 4: one small model trained with different numbers of KV heads, and what
// each cost in held-out loss. Measured by chapters/04_shared_heads/family.py, read here.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kv/report/plot.hpp"

namespace kv {

/// One model of the family.
struct FamilyMember {
  std::string kind;                     ///< "trained", "pooled" or "uptrained"
  int num_kv_heads = 0;                 ///< in each layer
  int seed = 0;                         ///< of the training
  std::int64_t steps = 0;               ///< of training, pooling's sources included
  std::int64_t num_parameters = 0;      ///< tied output counted once
  std::int64_t kv_bytes_per_token = 0;  ///< in fp32
  double held_out_loss = 0.0;           ///< nats per token
};

/// Reads family.csv.
/// \throws InputError naming the file, and the line that is not one of the family
std::vector<FamilyMember> read_family(const std::string& path);

/// Losses of one kind and number of heads over its seeds.
struct FamilyLoss {
  int num_seeds = 0;     ///< how many were trained
  double mean = 0.0;     ///< over the seeds, nats per token
  double lowest = 0.0;   ///< likewise
  double highest = 0.0;  ///< likewise
};

/// \return num_seeds 0 when the family has no such member
FamilyLoss family_loss(std::span<const FamilyMember> family, const std::string& kind,
                       int num_kv_heads);

/// A row for each number of KV heads, most first: bytes, parameters, and the losses of each kind as
/// "mean (lowest to highest)".
std::string family_text(std::span<const FamilyMember> family);

/// A row for each smaller number of KV heads: how much more it loses than the most heads do with
/// the same seed, as "mean (lowest to highest)". Trained and pooled are held against trained;
/// uptrained against uptrained, which has had the same additional steps.
std::string family_cost_text(std::span<const FamilyMember> family);

/// Held-out loss against KV bytes per token: all kinds, then only those that were trained with
/// their heads, since losses right after pooling are far above all others.
std::vector<Plot> family_plots(std::span<const FamilyMember> family);

}  // namespace kv
