#include "kv/model/utf8.hpp"

namespace kv {
namespace {

/// How a character that starts with a given byte goes on.
struct Lead {
  std::size_t num_bytes = 0;  ///< of the whole character; 0: no character starts like this
  unsigned char low = 0x80;   ///< smallest second byte: excludes overlong forms
  unsigned char high = 0xBF;  ///< largest second byte: excludes surrogates and above U+10FFFF
};

Lead lead_of(unsigned char byte) {
  if (byte < 0x80) return {1};
  if (byte < 0xC2) return {0};
  if (byte < 0xE0) return {2};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0};
}

}  // namespace

Utf8Step utf8_step(std::string_view text) {
  const Lead lead = lead_of(static_cast<unsigned char>(text[0]));
  if (lead.num_bytes == 0) return {Utf8Step::Kind::invalid, 1};
  for (std::size_t i = 1; i < lead.num_bytes; ++i) {
    if (i == text.size()) return {Utf8Step::Kind::incomplete, i};
    const auto byte = static_cast<unsigned char>(text[i]);
    const unsigned char low = i == 1 ? lead.low : 0x80;
    const unsigned char high = i == 1 ? lead.high : 0xBF;
    if (byte < low || byte > high) return {Utf8Step::Kind::invalid, i};
  }
  return {Utf8Step::Kind::valid, lead.num_bytes};
}

std::string to_valid_utf8(std::string_view text) {
  std::string valid;
  valid.reserve(text.size());
  while (!text.empty()) {
    const Utf8Step step = utf8_step(text);
    if (step.kind == Utf8Step::Kind::valid)
      valid += text.substr(0, step.num_bytes);
    else
      valid += kReplacementCharacter;
    text.remove_prefix(step.num_bytes);
  }
  return valid;
}

}  // namespace kv
