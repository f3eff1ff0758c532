// Writing JSON: objects, arrays, strings, numbers. Nothing is read.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kv {

/// A JSON value under construction. Members keep the order in which they were added.
///
///     Json report = Json::object();
///     report.set("tokens", 32).set("name", "llama");
///     write_file_atomically("--json", path, report.str());
class Json {
 public:
  /// null.
  Json() : text_("null") {}
  /// true or false.
  Json(bool value) : text_(value ? "true" : "false") {}
  /// A whole number.
  Json(int value) : text_(std::to_string(value)) {}
  /// A whole number.
  Json(std::int64_t value) : text_(std::to_string(value)) {}
  /// The shortest digits that read back as the same number; NaN and infinity, which JSON does not
  /// have, become null.
  Json(double value);
  /// Escaped as RFC 8259 asks; bytes that are not UTF-8 become U+FFFD.
  Json(std::string_view value);
  /// As a string_view.
  Json(const std::string& value) : Json(std::string_view(value)) {}
  /// As a string_view; not null.
  Json(const char* value) : Json(std::string_view(value)) {}

  /// An object without members.
  static Json object();
  /// An array without elements.
  static Json array();
  /// An array of anything that is itself a JSON value.
  template <typename Range>
  static Json array_of(const Range& values) {
    Json list = array();
    for (const auto& value : values) list.push(Json(value));
    return list;
  }

  /// Adds a member under `key`. \throws std::invalid_argument when this is no object or has that
  /// member
  Json& set(std::string_view key, Json value);
  /// Adds an element. \throws std::invalid_argument when this is no array
  Json& push(Json value);

  /// The text, indented by two spaces a level, with a line break at the end.
  std::string str() const;

 private:
  enum class Kind { scalar, object, array };

  void write(std::string& out, int level) const;

  Kind kind_ = Kind::scalar;
  std::string text_;                                 // of a scalar
  std::vector<std::pair<std::string, Json>> items_;  // key (empty in an array) and value
};

}  // namespace kv
