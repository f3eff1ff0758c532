#include "kv/report/json.hpp"

#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "kv/check.hpp"
#include "kv/model/utf8.hpp"

namespace kv {
namespace {

// Source: RFC 8259, section 7.
std::string quoted(std::string_view text) {
  constexpr char hex[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : to_valid_utf8(text)) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20)
          out += {'\\', 'u', '0', '0', hex[(c >> 4) & 15], hex[c & 15]};
        else
          out += c;
    }
  }
  return out + "\"";
}

}  // namespace

// Not std::to_chars: the browser runs this too (docs/site/widgets), and its tables are 100 kB.
Json::Json(double value) : text_("null") {
  if (!std::isfinite(value)) return;
  char digits[32];
  for (int precision = 15; precision <= 17; ++precision) {
    std::snprintf(digits, sizeof digits, "%.*g", precision, value);
    if (std::strtod(digits, nullptr) == value) break;  // 17 digits always read back as the same
  }
  text_ = digits;
}

Json::Json(std::string_view value) : text_(quoted(value)) {}

Json Json::object() {
  Json json;
  json.kind_ = Kind::object;
  return json;
}

Json Json::array() {
  Json json;
  json.kind_ = Kind::array;
  return json;
}

Json& Json::set(std::string_view key, Json value) {
  require(kind_ == Kind::object, "set() needs an object");
  std::string name = quoted(key);
  for (const auto& item : items_) require(item.first != name, "the member exists already: " + name);
  items_.emplace_back(std::move(name), std::move(value));
  return *this;
}

Json& Json::push(Json value) {
  require(kind_ == Kind::array, "push() needs an array");
  items_.emplace_back(std::string(), std::move(value));
  return *this;
}

void Json::write(std::string& out, int level) const {
  if (kind_ == Kind::scalar) {
    out += text_;
    return;
  }
  const bool object = kind_ == Kind::object;
  if (items_.empty()) {
    out += object ? "{}" : "[]";
    return;
  }
  out += object ? "{" : "[";
  const char* separator = "\n";
  for (const auto& [key, value] : items_) {
    out += separator;
    out.append(static_cast<std::size_t>(2 * (level + 1)), ' ');
    if (object) out += key + ": ";
    value.write(out, level + 1);
    separator = ",\n";
  }
  out += "\n";
  out.append(static_cast<std::size_t>(2 * level), ' ');
  out += object ? "}" : "]";
}

std::string Json::str() const {
  std::string out;
  write(out, 0);
  return out + "\n";
}

}  // namespace kv
