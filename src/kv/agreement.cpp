#include "kv/agreement.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "kv/report/progress.hpp"

namespace kv {

double logits_atol(const ModelConfig& config, KvDType kv_dtype, double max_abs_logit) {
  constexpr double kEps = 0x1p-23;
  double eps = kEps;
  if (kv_dtype == DType::f16) eps = 3.0 * std::sqrt(kEps * 0x1p-11);
  if (kv_dtype == DType::bf16) eps = 3.0 * std::sqrt(kEps * 0x1p-8);
  const double longest_sum =
      std::max({config.d_model, config.ffn_dim, config.heads.q_dim(), config.heads.head_dim});
  const double num_products = 4.0 * config.num_layers + 1.0;
  return kLogitsFactor * eps * std::sqrt(longest_sum) * std::sqrt(num_products) *
         std::max(1.0, max_abs_logit);
}

Agreement compare(const Generation& run, const ModelConfig& config, KvDType kv_dtype,
                  const PreviousMethod& previous) {
  std::vector<TokenId> tokens = run.prompt;
  tokens.insert(tokens.end(), run.output.begin(), run.output.end());
  const auto total = std::count_if(run.steps.begin(), run.steps.end(),
                                   [](const Step& step) { return !step.logits.empty(); });

  Progress progress("comparing with the previous chapter", total);
  Agreement agreement;
  agreement.num_steps = static_cast<std::int64_t>(run.steps.size());
  double max_abs_logit = 0.0;
  for (const Step& step : run.steps) {
    if (step.logits.empty()) continue;
    ComparedStep both{step.seq_len, step.ms, 0.0, step.work, {}, 0.0, false};
    const auto start = std::chrono::steady_clock::now();
    const std::vector<float> expected = previous(
        std::span(tokens).first(static_cast<std::size_t>(step.seq_len)), &both.previous_work);
    both.previous_ms =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    require(expected.size() == step.logits.size(), "both methods must use the same vocabulary");
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const double difference = std::fabs(double{step.logits[i]} - expected[i]);
      // A NaN on either side is the largest difference there is.
      both.logit_difference =
          std::isnan(difference) ? INFINITY : std::max(both.logit_difference, difference);
      max_abs_logit = std::max(max_abs_logit, std::fabs(double{expected[i]}));
    }
    // argmax() refuses NaN, which has made the difference infinite.
    both.token_equal =
        std::isfinite(both.logit_difference) && argmax(step.logits) == argmax(expected);
    agreement.tokens_equal += both.token_equal;
    agreement.max_logit_difference =
        std::max(agreement.max_logit_difference, both.logit_difference);
    agreement.steps.push_back(both);
    progress.update(static_cast<std::int64_t>(agreement.steps.size()));
  }
  agreement.bound = logits_atol(config, kv_dtype, max_abs_logit);
  return agreement;
}

}  // namespace kv
