#include "kv/agreement.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "kv/report/progress.hpp"

namespace kv {

namespace {

// Half the distance of two neighbouring numbers near 1; 0 for fp32, which is not rounded to.
double half_step(DType dtype) {
  if (dtype == DType::f16) return 0x1p-11;
  if (dtype == DType::bf16) return 0x1p-8;
  return 0.0;
}

}  // namespace

double logits_atol(const ModelConfig& config, KvDType kv_dtype, double max_abs_logit,
                   DType product_dtype) {
  constexpr double kEps = 0x1p-23;
  const double eps = kv_dtype == DType::f32 ? kEps : 3.0 * std::sqrt(kEps * half_step(kv_dtype));
  const double longest_sum =
      std::max({config.d_model, config.ffn_dim, config.heads.q_dim(), config.heads.head_dim});
  const double num_products = 4.0 * config.num_layers + 1.0;
  const double sums = kLogitsFactor * eps * std::sqrt(longest_sum) * std::sqrt(num_products);
  const double products =
      kProductsFactor * half_step(product_dtype) * std::sqrt(2.0 * config.num_layers);
  return (sums + products) * std::max(1.0, max_abs_logit);
}

Agreement compare(const Generation& run, const ModelConfig& config, KvDType kv_dtype,
                  const PreviousMethod& previous, DType product_dtype) {
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
  agreement.bound = logits_atol(config, kv_dtype, max_abs_logit, product_dtype);
  return agreement;
}

}  // namespace kv
