// From logits to the next token: greedy, or drawn from a tempered, truncated distribution.
//
// Order: temperature, softmax, top-k, renormalise, top-p, renormalise, draw.
// Source of top-p: Holtzman et al. 2020 (nucleus sampling).
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "kv/tensor.hpp"

namespace kv {

/// How the next token is chosen. The defaults are greedy.
struct SamplingOptions {
  float temperature = 0;   ///< divides the logits; 0: always the largest logit (greedy)
  int top_k = 0;           ///< keep this many most probable tokens; 0 or >= vocabulary: all
  float top_p = 1;         ///< then keep the fewest whose probabilities sum to at least this
  std::uint64_t seed = 0;  ///< of the random numbers
};

/// A token that may be drawn.
struct TokenProbability {
  TokenId id = 0;          ///< of the vocabulary
  double probability = 0;  ///< after all cuts; they sum to 1
};

/// The id of the largest logit; the lowest id when several are equal.
///
/// \param logits [vocab_size], at least one
/// \throws InputError when one is NaN or all are -inf: the weights or the cache are damaged
/// \throws std::invalid_argument when there are none
TokenId argmax(std::span<const float> logits);

/// The distribution that a Sampler with these options draws from.
///
/// A tie at a cut goes to the lower id. A sum within 1e-6 of top_p has reached it: logits are
/// floats, so sums meant to be equal to top_p differ by rounding. +inf takes all the probability,
/// shared evenly among several; -inf has none. Never empty.
/// \param logits  [vocab_size], at least one
/// \param options seed is not used
/// \return the tokens kept and their probabilities, summing to 1; most probable first if something
///   was cut off, else by id
/// \throws as argmax(), and as Sampler()
std::vector<TokenProbability> sampling_distribution(std::span<const float> logits,
                                                    const SamplingOptions& options);

/// Draws tokens. The same seed and logits give the same tokens with every standard library (the
/// last bit of exp() aside), because the random numbers are made from mt19937_64 by hand.
class Sampler {
 public:
  /// \throws InputError naming the option: temperature must be finite and not negative, top_k not
  ///   negative, top_p in (0, 1]
  explicit Sampler(const SamplingOptions& options);

  /// The next token. Greedy choices use up no random number, others exactly one.
  /// \param logits [vocab_size]
  /// \throws as argmax()
  TokenId next(std::span<const float> logits);

 private:
  SamplingOptions options_;
  std::mt19937_64 random_;
};

}  // namespace kv
