#include "widget.hpp"

#include <cmath>

#include "kv/check.hpp"
#include "kv/report/table.hpp"

namespace kv {

const char* answer(const Json& json) {
  static std::string text;
  text = json.str();
  return text.c_str();
}

std::int64_t whole(double value, const char* what, double least, double most) {
  if (!(value >= least && value <= most) || value != std::floor(value))
    throw InputError(std::string(what) + " must be a whole number from " +
                     with_thousands(std::llround(least)) + " to " +
                     with_thousands(std::llround(most)));
  return static_cast<std::int64_t>(value);
}

std::size_t index(double value, const char* what, std::size_t size) {
  return static_cast<std::size_t>(whole(value, what, 0, static_cast<double>(size) - 1));
}

const KvFormat& format_at(double value, const char* what) {
  return kv_formats()[index(value, what, kv_formats().size())];
}

}  // namespace kv

/// A number as the course's programs print it.
/// \param value the number; a time in seconds
/// \param kind  0: four digits; 1: bytes in kB, MB, GB; 2: in KiB, MiB, GiB; 3: whole; 4: a time
KV_WIDGET(number_text)(double value, double kind) {
  const auto rounded = std::llround(value);
  return kv::answer(kv::Json(kind == 0   ? kv::four_digits(value)
                             : kind == 1 ? kv::decimal_bytes(rounded)
                             : kind == 2 ? kv::binary_bytes(rounded)
                             : kind == 3 ? kv::with_thousands(rounded)
                                         : kv::duration(value)));
}
