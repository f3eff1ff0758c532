// Does this chapter compute the same as the one before it?
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "kv/generate.hpp"

namespace kv {

/// The previous chapter's way to the logits [vocab_size] after a prefix. It is asked for growing
/// prefixes, so it may keep state between calls. Adds what it cost to `work`.
using PreviousMethod =
    std::function<std::vector<float>(std::span<const TokenId> prefix, Work* work)>;

/// One output token, computed both ways from the same prefix.
struct ComparedStep {
  std::int64_t seq_len = 0;       ///< tokens of the prefix
  double ms = 0.0;                ///< this chapter's time for the step
  double previous_ms = 0.0;       ///< the previous chapter's
  Work work;                      ///< this chapter's, of the step
  Work previous_work;             ///< the previous chapter's
  double logit_difference = 0.0;  ///< largest over the vocabulary
  bool token_equal = false;       ///< the same token is the likeliest
};

/// The comparison of a run with the previous chapter.
struct Agreement {
  std::vector<ComparedStep> steps;    ///< in the order of the run
  std::int64_t num_steps = 0;         ///< output tokens of the run, compared or not
  double max_logit_difference = 0.0;  ///< over all compared steps
  double bound = 0.0;                 ///< what the arithmetic allows, see logits_atol
  std::int64_t tokens_equal = 0;      ///< compared steps with the same likeliest token

  /// Whether no compared logit differs by more than the bound.
  bool within_bound() const { return max_logit_difference <= bound; }
};

/// The factors of logits_atol.
inline constexpr double kLogitsFactor = 0.5;
/// The same for what 16-bit products add.
inline constexpr double kProductsFactor = 1.0;

/// Largest difference of two logits that should be equal but were summed in another order.
///
/// A dot product of n terms in fp32 carries an error of about eps * sqrt(n) of its size when the
/// roundings are independent. A pass has four such products in a row per layer and one for the
/// logits, and errors of independent stages add like their squares:
/// eps * sqrt(n) * sqrt(4 * num_layers + 1), n the longest sum, in units of the largest logit. The
/// factor 1/2 in front is three times the largest ratio measured (docs/tolerances.md).
/// A cache in a 16-bit format rounds K and V. An error of fp32 tips such a rounding seldom, with a
/// probability of about eps / half_step, and then changes it by a whole step; the mean square of
/// both together is that of one error of sqrt(eps * half_step). Three times that takes the place of
/// eps (measured: docs/tolerances.md).
/// Attention on tensor cores also rounds q and the weights of V to 16 bit, on one side of the
/// comparison only: two relative errors of half a step in each layer, which add like their squares
/// to half_step * sqrt(2 * num_layers), in units of the largest logit. That times kProductsFactor,
/// three times the largest ratio measured, is added.
///
/// \param config        the model's shape
/// \param kv_dtype      format of the cached K and V
/// \param max_abs_logit largest |logit| of the step
/// \param product_dtype format that one side rounds q and the weights to before it multiplies;
///                      fp32: it does not
double logits_atol(const ModelConfig& config, KvDType kv_dtype, double max_abs_logit,
                   DType product_dtype = DType::f32);

/// Runs the previous chapter's method on the prefixes of every step whose logits were kept; shows
/// its progress on a terminal.
///
/// \param run      a finished run; its options chose the steps
/// \param config   the model's shape
/// \param kv_dtype format of the cached K and V
/// \param previous the previous chapter
/// \param product_dtype as for logits_atol()
Agreement compare(const Generation& run, const ModelConfig& config, KvDType kv_dtype,
                  const PreviousMethod& previous, DType product_dtype = DType::f32);

}  // namespace kv
