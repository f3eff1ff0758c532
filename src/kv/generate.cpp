#include "kv/generate.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "kv/cache/contiguous.hpp"
#include "kv/exercise.hpp"

namespace kv {

namespace {

using Clock = std::chrono::steady_clock;

double total_ms(const std::vector<Step>& steps) {
  return std::accumulate(steps.begin(), steps.end(), 0.0,
                         [](double sum, const Step& step) { return sum + step.ms; });
}

}  // namespace

Work Generation::work() const {
  Work total;
  for (const Step& step : steps) total += step.work;
  return total;
}

double Generation::ttft_ms() const { return steps.empty() ? 0.0 : steps.front().ms; }

double Generation::tpot_ms() const {
  if (steps.size() < 2) return 0.0;
  return (total_ms(steps) - ttft_ms()) / static_cast<double>(steps.size() - 1);
}

double Generation::tokens_per_second() const {
  const double ms = total_ms(steps);
  return ms > 0.0 ? 1000.0 * static_cast<double>(steps.size()) / ms : 0.0;
}

GenerationRun::GenerationRun(const Tokenizer& tokenizer, std::vector<TokenId> prompt,
                             GenerateOptions options)
    : tokenizer_(tokenizer),
      options_(std::move(options)),
      sampler_(options_.sampling),
      decoder_(tokenizer),
      tokens_(std::move(prompt)) {
  require(options_.context > 0 && options_.max_tokens >= 0, "context and max_tokens must be set");
  const std::int64_t prompt_len = static_cast<std::int64_t>(tokens_.size());
  if (prompt_len == 0) throw InputError("--prompt: it has no tokens; give at least one character");
  if (prompt_len > options_.context)
    throw InputError("--prompt: its " + std::to_string(prompt_len) +
                     " tokens do not fit the context of " + std::to_string(options_.context) +
                     "; give a shorter prompt or a larger --context");
  result_.prompt = tokens_;
  max_output_ = std::min(options_.max_tokens, options_.context - prompt_len);
  std::string text;
  for (TokenId id : tokens_) text += decoder_.push(id);
  result_.text = text;
  if (options_.on_text) options_.on_text(text);
  if (max_output_ == 0) stop(FinishReason::length, "the prompt leaves no room in the context");
  step_start_ = Clock::now();
}

bool GenerationRun::keep_logits(std::int64_t step) const {
  // Of N steps keep num_compared: those where floor(step * kept / N) grows.
  const std::int64_t kept = std::min(options_.num_compared, max_output_);
  if (kept <= 0) return false;
  return step == 0 || step * kept / max_output_ != (step - 1) * kept / max_output_;
}

void GenerationRun::push(std::span<const float> logits) {
  require(!done_, "the run is over");
  const TokenId token = sampler_.next(logits);
  const auto now = Clock::now();
  const auto step_index = static_cast<std::int64_t>(result_.steps.size());
  Step step;
  step.ms = std::chrono::duration<double, std::milli>(now - step_start_).count();
  step.seq_len = static_cast<std::int64_t>(tokens_.size());
  step.work = std::exchange(step_work_, {});
  if (keep_logits(step_index)) step.logits.assign(logits.begin(), logits.end());
  result_.steps.push_back(std::move(step));
  tokens_.push_back(token);
  result_.output.push_back(token);

  const bool ended = tokenizer_.is_end(token) && !options_.ignore_eos;
  std::string text = ended ? std::string() : decoder_.push(token);
  if (ended) {
    stop(FinishReason::stop, "end of text");
  } else if (step_index + 1 == max_output_) {
    stop(FinishReason::length,
         max_output_ == options_.max_tokens
             ? "all " + std::to_string(max_output_) + " tokens produced"
             : "the context of " + std::to_string(options_.context) + " tokens is full");
  }
  if (done_) text += decoder_.finish();
  result_.text += text;
  if (options_.on_text && !text.empty()) options_.on_text(text);
  step_start_ = Clock::now();
}

void GenerationRun::stop(FinishReason reason, std::string detail) {
  done_ = true;
  result_.finish = reason;
  result_.finish_detail = std::move(detail);
}

Generation GenerationRun::finish() {
  require(done_, "the run is not over");
  return std::move(result_);
}

//! [prefill]
KV_EXERCISE std::vector<float> prefill(const Model& model, SequenceState& state,
                                       std::span<const TokenId> tokens, std::int64_t chunk,
                                       Work* work, const Math& math) {
  require(!tokens.empty() && chunk >= 1, "prefill needs tokens and a chunk of at least one row");
  const auto chunk_len = static_cast<std::size_t>(chunk);
  std::vector<float> logits;
  while (!tokens.empty()) {
    const auto part = tokens.first(std::min(tokens.size(), chunk_len));
    logits = forward(model, state, part, work, math);
    tokens = tokens.subspan(part.size());
  }
  return logits;
}
//! [prefill]

//! [decode step]
KV_EXERCISE std::vector<float> decode_step(const Model& model, SequenceState& state,
                                           std::span<const TokenId> tokens, Work* work,
                                           const Math& math) {
  require(state.length() + 1 == static_cast<std::int64_t>(tokens.size()),
          "the state must hold all tokens but the last");
  return forward(model, state, tokens.last(1), work, math);
}
//! [decode step]

//! [recompute]
KV_EXERCISE std::vector<float> recompute(const Model& model, std::span<const TokenId> tokens,
                                         KvDType kv_dtype, Work* work, const Math& math) {
  ContiguousCache fresh(model.config, static_cast<std::int64_t>(tokens.size()), kv_dtype);
  return forward(model, fresh, tokens, work, math);
}
//! [recompute]

}  // namespace kv
