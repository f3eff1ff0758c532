#include "kv/model/tokenizer_pre.hpp"

#include "kv/check.hpp"
#include "kv/model/gguf.hpp"  // printable
#include "kv/model/utf8.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

namespace kv {
namespace {

// Members of a character class: Unicode's White_Space, and the letters and numbers.
#define KV_SPACE R"(\t-\r\x{85}\p{Z})"
#define KV_NO_WORD KV_SPACE R"(\p{L}\p{N})"

// Every pattern of a stage must match at every position, so that nothing is ever skipped.
constexpr const char* kSingleDigits = R"(\p{N}|\P{N}+)";

constexpr const char* kGpt2 =
    "'s|'t|'re|'ve|'m|'ll|'d"
    R"(| ?\p{L}+| ?\p{N}+)"
    "| ?[^" KV_NO_WORD
    "]+"
    "|[" KV_SPACE "]+(?![^" KV_SPACE
    "])"  // leaves the last space to the word behind it
    "|[" KV_SPACE "]+";

constexpr const char* kLlama3 =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
    R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})"
    "| ?[^" KV_NO_WORD R"(]+[\r\n]*)"
    "|[" KV_SPACE R"(]*[\r\n]+)"
    "|[" KV_SPACE "]+(?![^" KV_SPACE
    "])"
    "|[" KV_SPACE "]+";

#undef KV_SPACE
#undef KV_NO_WORD

struct Rule {
  std::string_view name;
  std::array<const char*, 2> stages;  // null: no second stage
  bool is_llama3 = false;
};

constexpr std::array<Rule, 5> kRules = {{
    {"gpt-2", {kGpt2, nullptr}},
    {"smollm", {kSingleDigits, kGpt2}},
    {"llama-bpe", {kLlama3, nullptr}, true},
    {"llama3", {kLlama3, nullptr}, true},
    {"llama-v3", {kLlama3, nullptr}, true},
}};

std::string pcre2_message(int code) {
  std::array<PCRE2_UCHAR, 256> buffer{};
  pcre2_get_error_message(code, buffer.data(), buffer.size());
  return reinterpret_cast<const char*>(buffer.data());
}

/// The first bytes of `text` that are all valid UTF-8 (or all not).
std::string_view same_kind_run(std::string_view text, bool& is_valid) {
  std::size_t end = 0;
  while (end < text.size()) {
    const Utf8Step step = utf8_step(text.substr(end));
    const bool step_is_valid = step.kind == Utf8Step::Kind::valid;
    if (end == 0) is_valid = step_is_valid;
    if (step_is_valid != is_valid) break;
    end += step.num_bytes;
  }
  return text.substr(0, end);
}

}  // namespace

/// What PCRE2 needs while it matches; made once for a text.
struct PreTokenizer::Scratch {
  explicit Scratch(std::size_t text_bytes)
      : match(pcre2_match_data_create(1, nullptr)), context(pcre2_match_context_create(nullptr)) {
    if (!match || !context) throw std::bad_alloc();
    // The default limit is a constant. A run of n spaces takes about n steps back, so ours grows.
    const std::size_t limit = 10'000'000 + 8 * text_bytes;
    const std::size_t largest = std::numeric_limits<std::uint32_t>::max();
    pcre2_set_match_limit(context.get(), static_cast<std::uint32_t>(std::min(limit, largest)));
  }

  struct Free {
    void operator()(pcre2_match_data* p) const { pcre2_match_data_free(p); }
    void operator()(pcre2_match_context* p) const { pcre2_match_context_free(p); }
  };
  std::unique_ptr<pcre2_match_data, Free> match;
  std::unique_ptr<pcre2_match_context, Free> context;
};

/// One compiled expression.
struct PreTokenizer::Pattern {
  explicit Pattern(const char* expression) {
    int error = 0;
    PCRE2_SIZE offset = 0;
    code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression), PCRE2_ZERO_TERMINATED,
                         PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED, &error, &offset, nullptr);
    if (code == nullptr)  // the expressions are ours, so only a PCRE2 without Unicode comes here
      throw std::runtime_error("PCRE2 cannot compile a split pattern: " + pcre2_message(error));
    // Where machine code is not available or not allowed, PCRE2 interprets: slower, same result.
    pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
  }
  ~Pattern() { pcre2_code_free(code); }
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;

  void split(std::string_view text, const Scratch& scratch,
             std::vector<std::string_view>& words) const;

  pcre2_code* code = nullptr;
};

/// Appends the words of `text`, which is valid UTF-8 and not empty.
void PreTokenizer::Pattern::split(std::string_view text, const Scratch& scratch,
                                  std::vector<std::string_view>& words) const {
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  for (std::size_t begin = 0; begin < text.size();) {
    // Checked once by the caller: PCRE2 would check the whole rest again for every word.
    const int result = pcre2_match(code, subject, text.size(), begin, PCRE2_NO_UTF_CHECK,
                                   scratch.match.get(), scratch.context.get());
    const std::size_t end = result > 0 ? pcre2_get_ovector_pointer(scratch.match.get())[1] : begin;
    if (end <= begin)
      throw InputError("the text cannot be cut into words at byte " + std::to_string(begin) + ": " +
                       pcre2_message(result) + "; give it in shorter parts");
    words.push_back(text.substr(begin, end - begin));
    begin = end;
  }
}

PreTokenizer::PreTokenizer(const std::string& name) {
  std::string known;
  for (const Rule& rule : kRules) {
    known += std::string(known.empty() ? "" : ", ") + std::string(rule.name);
    if (rule.name != name) continue;
    is_llama3_ = rule.is_llama3;
    for (const char* stage : rule.stages)
      if (stage != nullptr) stages_.push_back(std::make_unique<Pattern>(stage));
    return;
  }
  throw InputError("tokenizer.ggml.pre: unknown rule '" + printable(name) + "'; known are " +
                   known);
}

PreTokenizer::~PreTokenizer() = default;

std::vector<std::string_view> PreTokenizer::split(std::string_view text) const {
  const Scratch scratch(text.size());
  std::vector<std::string_view> words;
  std::vector<std::string_view> parts, next;
  while (!text.empty()) {
    bool is_valid = false;
    const std::string_view run = same_kind_run(text, is_valid);
    text.remove_prefix(run.size());
    if (!is_valid) {
      words.push_back(run);
      continue;
    }
    parts.assign(1, run);
    for (const auto& stage : stages_) {
      next.clear();
      for (std::string_view part : parts) stage->split(part, scratch, next);
      parts.swap(next);
    }
    words.insert(words.end(), parts.begin(), parts.end());
  }
  return words;
}

}  // namespace kv
