#include "kv/report/json.hpp"

#include <fmt/format.h>

#include <cmath>

#include "kv/check.hpp"
#include "kv/model/utf8.hpp"

namespace kv {
namespace {

// Source: RFC 8259, section 7.
std::string quoted(std::string_view text) {
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
          out += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
        else
          out += c;
    }
  }
  return out + "\"";
}

}  // namespace

Json::Json(double value) : text_(std::isfinite(value) ? fmt::format("{}", value) : "null") {}

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
