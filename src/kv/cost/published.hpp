// Published shapes of well-known models.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "kv/cost/kv_bytes.hpp"

namespace kv {

/// What the calculator has to know of a model.
struct PublishedModel {
  std::string name;         ///< as --model takes it
  KvShape kv;               ///< what a cache of it holds
  int num_q_heads = 0;      ///< query heads
  std::int64_t params = 0;  ///< all parameters, a tied output counted once
  /// Of them an input embedding that is looked up, not multiplied; 0 when it is tied to the output.
  std::int64_t lookup_params = 0;
  /// Parameters that one token is multiplied with: of a mixture of experts only the experts that
  /// the router picks; never the looked-up embedding. Dense: params - lookup_params.
  std::int64_t active_params = 0;
  int num_experts = 0;     ///< routed experts of a layer; 0 = dense
  int active_experts = 0;  ///< of them, those that one token takes
  std::string source;      ///< where the numbers come from
  std::string note;        ///< what the reader should know; may be empty

  /// Parameters that a step over `batch` tokens has to read. Each token is taken to pick its
  /// experts independently and evenly, so of a mixture of experts this is the expected number.
  double params_read(std::int64_t batch) const;
};

/// All models, smallest first within a family.
std::span<const PublishedModel> published_models();

/// \throws InputError when there is none of that name, pointing at --list
const PublishedModel& published_model(std::string_view name);

/// A published shape with another number of KV heads. The K and V projections change with it; they
/// are taken to read rows of num_q_heads * head_dim, as in Llama.
///
/// \param model        dense, not MLA
/// \param num_kv_heads a divisor of its query heads
/// \throws InputError naming both numbers when it is not
PublishedModel with_kv_heads(const PublishedModel& model, int num_kv_heads);

}  // namespace kv
