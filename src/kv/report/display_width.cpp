#include "kv/report/display_width.hpp"

#include <algorithm>
#include <iterator>

#include "kv/model/utf8.hpp"

namespace kv {
namespace {

struct Range {
  char32_t first, last;
};

// Marks and joiners that take no column of their own: the ranges met in practice, not all of
// Unicode. Ascending.
constexpr Range kZeroWidth[] = {
    {0x0300, 0x036f},   {0x0483, 0x0489},  {0x0591, 0x05bd}, {0x0610, 0x061a}, {0x064b, 0x065f},
    {0x093c, 0x093c},   {0x0941, 0x0948},  {0x094d, 0x094d}, {0x0e31, 0x0e31}, {0x0e34, 0x0e3a},
    {0x0e47, 0x0e4e},   {0x1ab0, 0x1aff},  {0x1dc0, 0x1dff}, {0x200b, 0x200f}, {0x202a, 0x202e},
    {0x2060, 0x2064},   {0x20d0, 0x20f0},  {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f}, {0xfeff, 0xfeff},
    {0x1f3fb, 0x1f3ff}, {0xe0000, 0xe01ef}};

// Characters of two columns (East Asian Wide and Fullwidth, emoji). Ascending.
constexpr Range kWide[] = {
    {0x1100, 0x115f},   {0x231a, 0x231b},   {0x23e9, 0x23ec},   {0x25fd, 0x25fe},
    {0x2614, 0x2615},   {0x2648, 0x2653},   {0x26a1, 0x26a1},   {0x26bd, 0x26be},
    {0x26c4, 0x26c5},   {0x26d4, 0x26d4},   {0x26ea, 0x26ea},   {0x2705, 0x2705},
    {0x270a, 0x270b},   {0x2728, 0x2728},   {0x274c, 0x274c},   {0x2753, 0x2757},
    {0x2795, 0x2797},   {0x2b1b, 0x2b1c},   {0x2b50, 0x2b50},   {0x2e80, 0x303e},
    {0x3041, 0x33ff},   {0x3400, 0x4dbf},   {0x4e00, 0x9fff},   {0xa000, 0xa4cf},
    {0xa960, 0xa97c},   {0xac00, 0xd7a3},   {0xf900, 0xfaff},   {0xfe30, 0xfe6f},
    {0xff00, 0xff60},   {0xffe0, 0xffe6},   {0x1f004, 0x1f004}, {0x1f0cf, 0x1f0cf},
    {0x1f18e, 0x1f18e}, {0x1f191, 0x1f19a}, {0x1f200, 0x1f320}, {0x1f32d, 0x1f335},
    {0x1f337, 0x1f37c}, {0x1f37e, 0x1f393}, {0x1f3a0, 0x1f3ca}, {0x1f3e0, 0x1f3fa},
    {0x1f400, 0x1f43e}, {0x1f440, 0x1f440}, {0x1f442, 0x1f4fc}, {0x1f4ff, 0x1f53d},
    {0x1f550, 0x1f567}, {0x1f5fb, 0x1f64f}, {0x1f680, 0x1f6c5}, {0x1f6cc, 0x1f6d2},
    {0x1f7e0, 0x1f7eb}, {0x1f90c, 0x1f9ff}, {0x1fa70, 0x1faff}, {0x20000, 0x3fffd}};

template <std::size_t N>
bool contains(const Range (&ranges)[N], char32_t code) {
  const auto* range = std::lower_bound(std::begin(ranges), std::end(ranges), code,
                                       [](const Range& r, char32_t c) { return r.last < c; });
  return range != std::end(ranges) && range->first <= code;
}

// The code of a character whose bytes have been found valid.
char32_t decode(std::string_view bytes) {
  const auto lead = static_cast<unsigned char>(bytes[0]);
  char32_t code = bytes.size() == 1 ? lead : lead & (0x7fu >> bytes.size());
  for (const char c : bytes.substr(1)) code = (code << 6) | (static_cast<unsigned char>(c) & 0x3fu);
  return code;
}

}  // namespace

int display_width(std::string_view text) {
  int width = 0;
  while (!text.empty()) {
    const Utf8Step step = utf8_step(text);
    const bool valid = step.kind == Utf8Step::Kind::valid;
    const char32_t code = valid ? decode(text.substr(0, step.num_bytes)) : 0xfffd;
    text.remove_prefix(step.num_bytes);
    const bool control = code < 0x20 || (code >= 0x7f && code < 0xa0);
    if (control || contains(kZeroWidth, code)) continue;
    width += contains(kWide, code) ? 2 : 1;
  }
  return width;
}

}  // namespace kv
