// The loop around the decoder: what is run next, when to stop, what it cost.
//
// A chapter decides which rows go through the model at each step; everything else that a run needs
// (sampling, stopping, text, clocks, counters) is here, once for all chapters.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kv/decoder.hpp"
#include "kv/model/sampler.hpp"
#include "kv/model/tokenizer.hpp"

namespace kv {

/// What a run is asked to do.
struct GenerateOptions {
  std::int64_t max_tokens = 64;    ///< output tokens to stop after
  std::int64_t context = 0;        ///< prompt and output together never exceed this many tokens
  SamplingOptions sampling;        ///< how the next token is picked
  bool ignore_eos = false;         ///< go on after an end-of-text token (for measurements)
  std::int64_t num_compared = 64;  ///< steps whose logits are kept for a comparison, spread evenly
  std::function<void(std::string_view)> on_text;  ///< receives whole characters as they come
};

/// Why a run ended.
enum class FinishReason {
  stop,    ///< the model produced an end-of-text token
  length,  ///< max_tokens were produced, or the context is full
};

/// One step: one output token.
struct Step {
  double ms = 0.0;            ///< from the step before (or the request) to this token
  std::int64_t seq_len = 0;   ///< tokens before this one
  Work work;                  ///< what this step alone has cost
  std::vector<float> logits;  ///< [vocab_size] where kept, else empty
};

/// A finished run.
struct Generation {
  std::vector<TokenId> prompt;                 ///< as given
  std::vector<TokenId> output;                 ///< what was generated
  std::string text;                            ///< prompt and continuation
  FinishReason finish = FinishReason::length;  ///< why it ended
  std::string finish_detail;                   ///< the reason in words
  std::vector<Step> steps;                     ///< one per output token

  Work work() const;                 ///< all steps together
  double ttft_ms() const;            ///< request start to first output token; 0 without output
  double tpot_ms() const;            ///< (total - TTFT) / (output tokens - 1); 0 below two tokens
  double tokens_per_second() const;  ///< output tokens / total time; 0 without output
};

/// A run in progress. `push` takes the logits of each step in turn until `done`.
class GenerationRun {
 public:
  /// \param tokenizer turns ids into text; must outlive the run
  /// \param prompt    at least one token
  /// \param options   context must be positive
  /// \throws InputError when the prompt is empty or longer than the context
  GenerationRun(const Tokenizer& tokenizer, std::vector<TokenId> prompt, GenerateOptions options);

  /// No further step is wanted.
  bool done() const { return done_; }
  /// Prompt and output so far: the whole prefix of the next token.
  std::span<const TokenId> tokens() const { return tokens_; }
  /// The newest token alone.
  std::span<const TokenId> last_token() const { return tokens().last(1); }
  /// The most tokens that prompt and output can come to: what a cache is made to hold. (The last
  /// output token is never fed back, so its slot stays empty.)
  std::int64_t max_seq_len() const {
    return static_cast<std::int64_t>(result_.prompt.size()) + max_output_;
  }
  /// Handed to forward(): counts what the current step costs.
  Work* work() { return &step_work_; }

  /// Ends a step: samples a token from `logits` [vocab_size], emits its text, decides whether to
  /// stop.
  void push(std::span<const float> logits);

  /// The finished run; call once, when done.
  Generation finish();

 private:
  bool keep_logits(std::int64_t step) const;
  void stop(FinishReason reason, std::string detail);

  const Tokenizer& tokenizer_;
  GenerateOptions options_;
  Sampler sampler_;
  StreamDecoder decoder_;
  std::vector<TokenId> tokens_;  // prompt, then output
  Generation result_;
  Work step_work_;
  std::int64_t max_output_ = 0;  // max_tokens, or what the context leaves
  bool done_ = false;
  std::chrono::steady_clock::time_point step_start_;
};

/// Runs a prompt through the model in chunks, so that working memory does not grow with it.
///
/// \param model     weights
/// \param state     appended to; holds the tokens before these
/// \param tokens    at least one
/// \param chunk     rows per pass, at least 1
/// \param work      if not null, what the passes cost is added
/// \param math      as in forward()
/// \return logits [vocab_size] after the last token
std::vector<float> prefill(const Model& model, SequenceState& state,
                           std::span<const TokenId> tokens, std::int64_t chunk,
                           Work* work = nullptr, const Math& math = fast_math());

/// The method of chapter 2: only the newest token goes through the model; the state holds the keys
/// and values of all tokens before it, and then its own.
///
/// \param model     weights
/// \param state     holds all tokens but the last; appended to
/// \param tokens    the sequence: those that the state holds, then one more
/// \param work      if not null, what the pass costs is added
/// \param math      as in forward()
/// \return logits [vocab_size] after the last token
/// \throws std::invalid_argument when the state does not hold all tokens but the last
std::vector<float> decode_step(const Model& model, SequenceState& state,
                               std::span<const TokenId> tokens, Work* work = nullptr,
                               const Math& math = fast_math());

/// The method of chapter 1: the whole prefix through the model, from nothing.
///
/// \param model    weights
/// \param tokens   the sequence so far, at least one token
/// \param kv_dtype format in which K and V of the pass are kept
/// \param work     if not null, what the pass costs is added
/// \param math     as in forward()
/// \return logits [vocab_size] after the last token
std::vector<float> recompute(const Model& model, std::span<const TokenId> tokens, KvDType kv_dtype,
                             Work* work = nullptr, const Math& math = fast_math());

}  // namespace kv
