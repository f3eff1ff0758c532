// Requests as a server sees them: how long the prompt is, and how long the answer will get.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kv {

/// One request.
struct Request {
  std::int64_t prompt_tokens = 1;  ///< at least 1
  std::int64_t output_tokens =
      1;                     ///< at least 1; unknown to the server until it has come to an end
  std::int64_t arrival = 0;  ///< decode step in which it arrives

  /// Tokens in its cache when it ends: the last output token is never fed back.
  std::int64_t final_length() const { return prompt_tokens + output_tokens - 1; }
};

/// Lengths that are lognormal, each rounded to a whole number of at least 1:
///
///     tokens = exp(ln(mean) - sigma^2 / 2 + sigma z),   z standard normal
///
/// so that `mean` is the mean before long requests are cut.
struct LengthShape {
  double prompt_mean = 0.0;   ///< tokens
  double prompt_sigma = 0.0;  ///< standard deviation of the logarithm
  double output_mean = 0.0;   ///< tokens
  double output_sigma = 0.0;  ///< likewise
};

/// Shared conversations with a chatbot: the means of ShareGPT, 161.31 and 337.99 tokens.
/// Source: Kwon et al. 2023, section 6.1 and figure 11. The spreads are ours, chosen so that what a
/// request still needs is about two thirds of what it holds in the mean of its life (13.3 to 20.4
/// in their figure 2).
inline constexpr LengthShape kChatShape = {161.31, 1.0, 337.99, 0.85};
/// Single instructions: the means of Alpaca, 19.31 and 58.45 tokens. Source: as above; the spreads
/// are ours.
inline constexpr LengthShape kInstructionShape = {19.31, 0.6, 58.45, 0.85};

/// Requests by formula and seed, the same on every machine: random bits come from
/// std::mt19937_64 and become normal numbers by Box and Muller's formula, since the distributions
/// of standard libraries differ.
///
/// A prompt is cut to half of `max_len`, an output to what then remains. All arrive in step 0.
///
/// \param shape        the lengths
/// \param num_requests not negative
/// \param max_len      most tokens of prompt and output; at least 2
/// \param seed         any number
std::vector<Request> make_trace(const LengthShape& shape, std::int64_t num_requests,
                                std::int64_t max_len, std::uint64_t seed);

/// Lets requests arrive at random times, `rate` a decode step in the mean (a Poisson process).
/// \param trace its arrivals are written
/// \param rate  positive
/// \param seed  of the random numbers
void set_arrivals(std::vector<Request>& trace, double rate, std::uint64_t seed);

/// Reads a CSV file whose first line names its columns, among them prompt_tokens and
/// output_tokens; other columns are passed over. Fields are not quoted. All arrive in step 0.
///
/// \param path a file of at most kMaxTraceRequests lines of at most kMaxTraceLine characters
/// \throws InputError naming the file and the line that cannot be used
std::vector<Request> read_trace(const std::string& path);

/// Limits that keep a wrong file from filling the memory.
inline constexpr std::int64_t kMaxTraceRequests = 1'000'000;
inline constexpr std::int64_t kMaxTraceLine = 4096;        ///< characters
inline constexpr std::int64_t kMaxTokens = 1'000'000'000;  ///< of one prompt or output

}  // namespace kv
