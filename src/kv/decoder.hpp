// One pass of the decoder: the same code for prefill, chunked prefill, decode and batches.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kv/cache/sequence_state.hpp"
#include "kv/math.hpp"
#include "kv/model/weights.hpp"
#include "kv/tensor.hpp"

namespace kv {

/// What a pass has cost, counted; add up passes by handing the same object to each.
struct Work {
  std::int64_t rows = 0;              ///< token rows pushed through the layers
  std::int64_t scores = 0;            ///< q.k products, over all layers and query heads
  std::int64_t kv_bytes_written = 0;  ///< bytes of K and V appended
  std::int64_t kv_bytes_read = 0;     ///< bytes of K and V that attention had to read, each once
};

/// Adds up what two passes cost.
Work& operator+=(Work& total, const Work& part);

/// One sequence's share of a pass.
struct BatchItem {
  SequenceState* state = nullptr;   ///< read and appended to
  std::span<const TokenId> tokens;  ///< new tokens, at least one; they must fit the state
};

/// Runs the new tokens of every sequence through the model and commits them to their states.
///
/// All rows are stacked, so each linear layer is one product whatever the batch; attention runs
/// per sequence. The first new token of a sequence has position state->length().
///
/// \param model weights
/// \param batch at least one item; no state twice
/// \param work  if not null, what the pass cost is added
/// \param math  what computes the linear layers and attention
/// \return logits [batch.size(), vocab_size]: those after the last new token of each sequence
/// \throws std::invalid_argument on an empty item, a token outside the vocabulary, or too many rows
RowMajor forward(const Model& model, std::span<const BatchItem> batch, Work* work = nullptr,
                 const Math& math = fast_math());

/// The same for one sequence.
/// \return logits [vocab_size]
std::vector<float> forward(const Model& model, SequenceState& state,
                           std::span<const TokenId> tokens, Work* work = nullptr,
                           const Math& math = fast_math());

/// The same for one sequence, with the logits of every new token (for tests and comparisons).
/// \return logits [tokens.size(), vocab_size]
RowMajor forward_all(const Model& model, SequenceState& state, std::span<const TokenId> tokens,
                     Work* work = nullptr, const Math& math = fast_math());

}  // namespace kv
