#include "kv/model/sampler.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "kv/check.hpp"

namespace kv {
namespace {

// Relative rounding of a float logit of size 10 moves a probability by about 1e-6.
constexpr double kTopPSlack = 1e-6;

void check_options(const SamplingOptions& options) {
  // Written so that NaN fails.
  if (!(options.temperature >= 0 && std::isfinite(options.temperature)))
    throw InputError("--temperature: it must be a finite number, 0 (greedy) or more, not " +
                     std::to_string(options.temperature));
  if (options.top_k < 0)
    throw InputError("--top-k: it must be 0 (keep all) or more, not " +
                     std::to_string(options.top_k));
  if (!(options.top_p > 0 && options.top_p <= 1))
    throw InputError("--top-p: it must be above 0 and at most 1 (keep all), not " +
                     std::to_string(options.top_p));
}

/// Divides by the sum, so that the probabilities sum to 1.
void normalize(std::vector<TokenProbability>& tokens) {
  double sum = 0;
  for (const TokenProbability& token : tokens) sum += token.probability;
  for (TokenProbability& token : tokens) token.probability /= sum;
}

bool more_probable(const TokenProbability& a, const TokenProbability& b) {
  return a.probability != b.probability ? a.probability > b.probability : a.id < b.id;
}

/// p_i = exp((logit_i - max) / temperature) / sum. The exponent is never positive, so a tiny
/// temperature takes it to -inf and the probability to 0, never to an overflow.
std::vector<TokenProbability> softmax(std::span<const float> logits, double temperature) {
  const float largest = logits[static_cast<std::size_t>(argmax(logits))];
  std::vector<TokenProbability> tokens;
  tokens.reserve(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) {
    // Equal to the largest is 1 also where the difference is inf - inf.
    const double below = static_cast<double>(logits[i]) - static_cast<double>(largest);
    const double weight = logits[i] == largest ? 1.0 : std::exp(below / temperature);
    tokens.push_back({static_cast<TokenId>(i), weight});
  }
  normalize(tokens);
  return tokens;
}

/// Keeps the `top_k` most probable tokens.
void keep_top_k(std::vector<TokenProbability>& tokens, int top_k) {
  const auto count = static_cast<std::size_t>(top_k);
  if (count == 0 || count >= tokens.size()) return;
  const auto end = tokens.begin() + top_k;
  std::partial_sort(tokens.begin(), end, tokens.end(), more_probable);
  tokens.erase(end, tokens.end());
  normalize(tokens);  // top-p is a share of what top-k has left
}

/// Keeps the smallest set of the most probable tokens whose sum is at least `top_p`.
void keep_top_p(std::vector<TokenProbability>& tokens, double top_p) {
  if (top_p >= 1) return;
  std::sort(tokens.begin(), tokens.end(), more_probable);
  double sum = 0;
  std::size_t count = 0;
  do {
    sum += tokens[count].probability;
    ++count;
  } while (count < tokens.size() && sum < top_p - kTopPSlack);
  tokens.resize(count);
  normalize(tokens);
}

}  // namespace

TokenId argmax(std::span<const float> logits) {
  require(!logits.empty(), "argmax needs at least one logit");
  std::size_t best = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (std::isnan(logits[i]))
      throw InputError("the logit of token " + std::to_string(i) +
                       " is not a number: the model's weights or its cache are damaged");
    if (logits[i] > logits[best]) best = i;
  }
  if (logits[best] == -std::numeric_limits<float>::infinity())
    throw InputError("all logits are -inf: the model's weights or its cache are damaged");
  return static_cast<TokenId>(best);
}

std::vector<TokenProbability> sampling_distribution(std::span<const float> logits,
                                                    const SamplingOptions& options) {
  check_options(options);
  if (options.temperature == 0) return {{argmax(logits), 1.0}};
  std::vector<TokenProbability> tokens = softmax(logits, options.temperature);
  keep_top_k(tokens, options.top_k);
  keep_top_p(tokens, options.top_p);
  return tokens;
}

Sampler::Sampler(const SamplingOptions& options) : options_(options), random_(options.seed) {
  check_options(options);
}

TokenId Sampler::next(std::span<const float> logits) {
  if (options_.temperature == 0) return argmax(logits);
  const std::vector<TokenProbability> tokens = sampling_distribution(logits, options_);

  // u in [0, 1) with 53 random bits; the token whose stretch of the cumulated sum holds u.
  const double u = static_cast<double>(random_() >> 11) * 0x1p-53;
  double sum = 0;
  TokenId last = tokens.front().id;
  for (const TokenProbability& token : tokens) {
    if (token.probability == 0) continue;
    last = token.id;
    sum += token.probability;
    if (u < sum) return last;
  }
  return last;  // rounding left the sum a little below 1
}

}  // namespace kv
