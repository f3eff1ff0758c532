#include "kv/cost/request_trace.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <numbers>
#include <random>
#include <string_view>

#include "kv/check.hpp"

namespace kv {
namespace {

// Uniform in (0, 1): never 0, whose logarithm does not exist.
double uniform(std::mt19937_64& random) {
  return (static_cast<double>(random() >> 11) + 0.5) * 0x1p-53;
}

double normal(std::mt19937_64& random) {
  const double radius = std::sqrt(-2.0 * std::log(uniform(random)));
  return radius * std::cos(2.0 * std::numbers::pi * uniform(random));
}

//! [lengths]
std::int64_t lognormal(double mean, double sigma, std::int64_t limit, std::mt19937_64& random) {
  const double x = std::exp(std::log(mean) - sigma * sigma / 2 + sigma * normal(random));
  return std::clamp<std::int64_t>(std::llround(std::min(x, static_cast<double>(limit))), 1, limit);
}
//! [lengths]

// A text file line by line, no line longer than the limit.
class Lines {
 public:
  explicit Lines(const std::string& path) : path_(path), file_(path, std::ios::binary) {
    std::error_code error;
    if (std::filesystem::is_directory(path, error)) throw InputError(path + ": it is a directory");
    if (!file_) throw InputError(path + ": cannot be read");
  }

  // False at the end of the file.
  bool next(std::string& line) {
    line.clear();
    ++number_;
    for (int c = file_.get(); c != std::ifstream::traits_type::eof(); c = file_.get()) {
      if (c == '\n') {
        if (line.ends_with('\r')) line.pop_back();
        return true;
      }
      line += static_cast<char>(c);
      if (static_cast<std::int64_t>(line.size()) > kMaxTraceLine)
        fail("it is longer than " + std::to_string(kMaxTraceLine) + " characters");
    }
    return !line.empty();
  }

  [[noreturn]] void fail(const std::string& why) const {
    throw InputError(path_ + ": line " + std::to_string(number_) + ": " + why);
  }

 private:
  std::string path_;
  std::ifstream file_;
  std::int64_t number_ = 0;
};

std::vector<std::string_view> fields_of(std::string_view line) {
  std::vector<std::string_view> fields;
  for (;;) {
    const std::size_t comma = line.find(',');
    std::string_view field = line.substr(0, comma);
    while (field.starts_with(' ')) field.remove_prefix(1);
    while (field.ends_with(' ')) field.remove_suffix(1);
    fields.push_back(field);
    if (comma == std::string_view::npos) return fields;
    line.remove_prefix(comma + 1);
  }
}

std::size_t column_of(const std::vector<std::string_view>& names, std::string_view name,
                      const Lines& lines) {
  const auto at = std::ranges::find(names, name);
  if (at == names.end())
    lines.fail(
        "the first line must name the columns prompt_tokens and output_tokens; there is no " +
        std::string(name));
  return static_cast<std::size_t>(at - names.begin());
}

std::int64_t tokens_in(std::string_view field, std::string_view name, const Lines& lines) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  if (error != std::errc() || end != field.data() + field.size() || value < 1 || value > kMaxTokens)
    lines.fail(std::string(name) + " must be a whole number from 1 to " +
               std::to_string(kMaxTokens));
  return value;
}

}  // namespace

std::vector<Request> make_trace(const LengthShape& shape, std::int64_t num_requests,
                                std::int64_t max_len, std::uint64_t seed) {
  require(num_requests >= 0, "num_requests must not be negative");
  require(max_len >= 2, "max_len must have room for a prompt and an output");
  std::mt19937_64 random(seed);
  std::vector<Request> trace;
  trace.reserve(static_cast<std::size_t>(num_requests));
  for (std::int64_t i = 0; i < num_requests; ++i) {
    const std::int64_t prompt =
        lognormal(shape.prompt_mean, shape.prompt_sigma, max_len / 2, random);
    const std::int64_t output =
        lognormal(shape.output_mean, shape.output_sigma, max_len - prompt, random);
    trace.push_back({prompt, output, 0});
  }
  return trace;
}

void set_arrivals(std::vector<Request>& trace, double rate, std::uint64_t seed) {
  require(rate > 0.0, "the rate of arrivals must be positive");
  std::mt19937_64 random(seed);
  double now = 0.0;
  for (Request& request : trace) {
    now -= std::log(uniform(random)) / rate;
    request.arrival = static_cast<std::int64_t>(std::min(now, 0x1p53));
  }
}

std::vector<Request> read_trace(const std::string& path) {
  Lines lines(path);
  std::string line;
  if (!lines.next(line)) lines.fail("the file is empty");
  const std::vector<std::string_view> names = fields_of(line);
  const std::size_t num_columns = names.size();
  const std::size_t prompt = column_of(names, "prompt_tokens", lines);
  const std::size_t output = column_of(names, "output_tokens", lines);
  std::vector<Request> trace;
  while (lines.next(line)) {
    const std::vector<std::string_view> fields = fields_of(line);
    if (fields.size() != num_columns)
      lines.fail("it has " + std::to_string(fields.size()) + " fields, the first line has " +
                 std::to_string(num_columns));
    if (static_cast<std::int64_t>(trace.size()) == kMaxTraceRequests)
      lines.fail("there are more than " + std::to_string(kMaxTraceRequests) + " requests");
    trace.push_back({tokens_in(fields[prompt], "prompt_tokens", lines),
                     tokens_in(fields[output], "output_tokens", lines), 0});
  }
  if (trace.empty()) lines.fail("there is no request");
  return trace;
}

}  // namespace kv
