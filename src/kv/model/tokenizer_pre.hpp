// Cuts text into the words that byte-level BPE never merges across.
//
// Sources of the patterns: GPT-2 (Radford et al. 2019), Llama 3 (its published tokenizer.json),
// SmolLM2 (likewise: every digit first, then GPT-2's pattern). Written for PCRE2, except that "\s"
// is spelled out: PCRE2's includes U+180E, which has not been white space since Unicode 6.3.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace kv {

/// The compiled patterns of one rule. Immutable, safe from several threads.
class PreTokenizer {
 public:
  /// \param name the file's tokenizer.ggml.pre
  /// \throws InputError naming an unknown rule and the known ones
  explicit PreTokenizer(const std::string& name);
  ~PreTokenizer();
  PreTokenizer(const PreTokenizer&) = delete;
  PreTokenizer& operator=(const PreTokenizer&) = delete;

  /// Whether the rule comes from Llama 3, which takes whole words from the vocabulary first.
  bool is_llama3() const { return is_llama3_; }

  /// Cuts `text` into words; their concatenation is the text.
  ///
  /// The patterns see only the valid UTF-8 in between bytes that are no character; each run of such
  /// bytes is a word of its own, and to the patterns the text ends there.
  /// \param text any bytes
  /// \return views into `text`
  /// \throws InputError when the matcher gives up (its limits grow with the text, so that memory is
  ///   what runs out first)
  std::vector<std::string_view> split(std::string_view text) const;

 private:
  struct Pattern;
  struct Scratch;
  std::vector<std::unique_ptr<Pattern>> stages_;  // each splits what the one before has left
  bool is_llama3_ = false;
};

}  // namespace kv
