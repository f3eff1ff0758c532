// Numbers and sizes as text. The browser runs this too (docs/site/widgets).
#include <cmath>
#include <cstdio>

#include "kv/report/table.hpp"

namespace kv {
namespace {

struct Unit {
  std::int64_t bytes;
  const char* name;
};

// The largest unit is the one that memory sizes are compared in; above it thousands are grouped.
constexpr Unit kDecimal[] = {{1'000'000'000, "GB"}, {1'000'000, "MB"}, {1'000, "kB"}};
constexpr Unit kBinary[] = {
    {std::int64_t{1} << 30, "GiB"}, {std::int64_t{1} << 20, "MiB"}, {std::int64_t{1} << 10, "KiB"}};

// Both systems switch units at the same size, so that GB stands beside GiB, never beside MiB.
std::string in_unit(std::int64_t bytes, const Unit (&units)[3]) {
  const double size = std::fabs(static_cast<double>(bytes));
  for (int i = 0; i < 3; ++i)
    if (size >= static_cast<double>(kDecimal[i].bytes))
      return four_digits(static_cast<double>(bytes) / static_cast<double>(units[i].bytes)) + " " +
             units[i].name;
  return std::to_string(bytes) + " B";
}

std::string printed(const char* format, double value) {
  char text[32];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

}  // namespace

std::string with_thousands(std::int64_t value) {
  const std::string digits = std::to_string(value);
  std::string out;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const bool inside = i > 0 && digits[i - 1] != '-';
    if (inside && (digits.size() - i) % 3 == 0) out += ',';
    out += digits[i];
  }
  return out;
}

std::string four_digits(double value) {
  if (std::isnan(value)) return "not a number";
  if (std::isinf(value)) return value > 0 ? "infinite" : "-infinite";
  const double size = std::fabs(value);
  // The limits are those of the rounded number: 9.9996 is written 10.00, not 10.000.
  if (size < 9.9995) return printed("%.3f", value);
  if (size < 99.995) return printed("%.2f", value);
  if (size < 999.95) return printed("%.1f", value);
  if (size < 9e18) return with_thousands(std::llround(value));
  return printed("%.3e", value);
}

std::string decimal_bytes(std::int64_t bytes) { return in_unit(bytes, kDecimal); }

std::string binary_bytes(std::int64_t bytes) { return in_unit(bytes, kBinary); }

std::string duration(double seconds) {
  if (seconds < 1e-3) return four_digits(seconds * 1e6) + " µs";
  return seconds < 10 ? four_digits(seconds * 1e3) + " ms" : four_digits(seconds) + " s";
}

std::string format_bytes(std::int64_t bytes) {
  if (bytes > -1000 && bytes < 1000) return std::to_string(bytes) + " B";
  return decimal_bytes(bytes) + " (" + binary_bytes(bytes) + ")";
}

}  // namespace kv
