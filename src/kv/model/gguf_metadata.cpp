// Typed access to the values and tensors of an open GGUF file.
#include <algorithm>
#include <cstring>
#include <limits>

#include "kv/model/gguf.hpp"

namespace kv {
namespace {

/// Element `i` of packed values, which need not be aligned.
template <typename T>
T element(const GgufValue& value, std::uint64_t i) {
  T result;
  std::memcpy(&result, value.bytes.data() + i * sizeof(T), sizeof(T));
  return result;
}

std::string_view type_name(GgufType type) {
  switch (type) {
    case GgufType::u8:
      return "u8";
    case GgufType::i8:
      return "i8";
    case GgufType::u16:
      return "u16";
    case GgufType::i16:
      return "i16";
    case GgufType::u32:
      return "u32";
    case GgufType::i32:
      return "i32";
    case GgufType::f32:
      return "f32";
    case GgufType::boolean:
      return "bool";
    case GgufType::string:
      return "string";
    case GgufType::array:
      return "array";
    case GgufType::u64:
      return "u64";
    case GgufType::i64:
      return "i64";
    case GgufType::f64:
      return "f64";
  }
  return "unknown";
}

bool is_integer(GgufType type) {
  return type != GgufType::f32 && type != GgufType::f64 && type != GgufType::boolean &&
         type != GgufType::string && type != GgufType::array;
}

InputError wrong_type(const GgufFile& file, const GgufValue& value, std::string_view wanted) {
  return file.key_error(value.key, "is " + std::string(value.is_array ? "an array of " : "a ") +
                                       std::string(type_name(value.type)) + ", not " +
                                       std::string(wanted) + "; convert the model again");
}

/// The value of `key` when it has the wanted form, null when there is none.
template <typename HasType>
const GgufValue* find_typed(const GgufFile& file, std::string_view key, bool is_array,
                            std::string_view wanted, HasType has_type) {
  const GgufValue* value = file.find(key);
  if (value != nullptr && (value->is_array != is_array || !has_type(value->type)))
    throw wrong_type(file, *value, wanted);
  return value;
}

/// An integer that the caller knows to be of integer type.
std::int64_t checked_integer(const GgufFile& file, const GgufValue& value, std::uint64_t i) {
  if (const auto number = value.integer_at(i)) return *number;
  throw file.key_error(value.key, std::to_string(element<std::uint64_t>(value, i)) +
                                      " is too large; convert the model again");
}

}  // namespace

std::optional<std::int64_t> GgufValue::integer_at(std::uint64_t i) const {
  switch (type) {
    case GgufType::u8:
      return element<std::uint8_t>(*this, i);
    case GgufType::i8:
      return element<std::int8_t>(*this, i);
    case GgufType::u16:
      return element<std::uint16_t>(*this, i);
    case GgufType::i16:
      return element<std::int16_t>(*this, i);
    case GgufType::u32:
      return element<std::uint32_t>(*this, i);
    case GgufType::i32:
      return element<std::int32_t>(*this, i);
    case GgufType::i64:
      return element<std::int64_t>(*this, i);
    case GgufType::u64: {
      const auto number = element<std::uint64_t>(*this, i);
      if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) break;
      return static_cast<std::int64_t>(number);
    }
    default:
      break;
  }
  return std::nullopt;
}

const GgufValue* GgufFile::find(std::string_view key) const {
  const auto found = std::ranges::lower_bound(values_, key, {}, &GgufValue::key);
  return found != values_.end() && found->key == key ? &*found : nullptr;
}

const GgufTensor* GgufFile::find_tensor(std::string_view name) const {
  const auto name_of = [this](std::size_t i) { return tensors_[i].name; };
  const auto found = std::ranges::lower_bound(tensors_by_name_, name, {}, name_of);
  if (found == tensors_by_name_.end() || name_of(*found) != name) return nullptr;
  return &tensors_[*found];
}

std::optional<std::int64_t> GgufFile::integer(std::string_view key) const {
  const GgufValue* value = find_typed(*this, key, false, "an integer", is_integer);
  if (value == nullptr) return std::nullopt;
  return checked_integer(*this, *value, 0);
}

std::optional<double> GgufFile::number(std::string_view key) const {
  const GgufValue* value = find_typed(*this, key, false, "a float", [](GgufType type) {
    return type == GgufType::f32 || type == GgufType::f64;
  });
  if (value == nullptr) return std::nullopt;
  return value->type == GgufType::f32 ? element<float>(*value, 0) : element<double>(*value, 0);
}

std::optional<bool> GgufFile::boolean(std::string_view key) const {
  const GgufValue* value = find_typed(*this, key, false, "a bool",
                                      [](GgufType type) { return type == GgufType::boolean; });
  if (value == nullptr) return std::nullopt;
  return element<std::uint8_t>(*value, 0) != 0;
}

std::optional<std::string_view> GgufFile::string(std::string_view key) const {
  const GgufValue* value = find_typed(*this, key, false, "a string",
                                      [](GgufType type) { return type == GgufType::string; });
  if (value == nullptr) return std::nullopt;
  const auto text = value->bytes.subspan(sizeof(std::uint64_t));  // past the length
  return std::string_view(reinterpret_cast<const char*>(text.data()), text.size());
}

std::optional<std::vector<std::string_view>> GgufFile::strings(std::string_view key) const {
  const GgufValue* value = find_typed(*this, key, true, "an array of strings",
                                      [](GgufType type) { return type == GgufType::string; });
  if (value == nullptr) return std::nullopt;
  std::vector<std::string_view> views;
  views.reserve(value->count);  // at most bytes / 8: checked when the file was opened
  const std::byte* at = value->bytes.data();
  for (std::uint64_t i = 0; i < value->count; ++i) {
    std::uint64_t length;
    std::memcpy(&length, at, sizeof(length));
    at += sizeof(length);
    views.emplace_back(reinterpret_cast<const char*>(at), length);
    at += length;
  }
  return views;
}

std::optional<std::vector<std::int64_t>> GgufFile::integers(std::string_view key) const {
  const GgufValue* value = find_typed(*this, key, true, "an array of integers", is_integer);
  if (value == nullptr) return std::nullopt;
  std::vector<std::int64_t> numbers(value->count);
  for (std::uint64_t i = 0; i < value->count; ++i) numbers[i] = checked_integer(*this, *value, i);
  return numbers;
}

std::optional<std::vector<float>> GgufFile::floats(std::string_view key) const {
  const GgufValue* value = find_typed(*this, key, true, "an array of floats", [](GgufType type) {
    return type == GgufType::f32 || type == GgufType::f64;
  });
  if (value == nullptr) return std::nullopt;
  std::vector<float> numbers(value->count);
  for (std::uint64_t i = 0; i < value->count; ++i)
    numbers[i] = value->type == GgufType::f32 ? element<float>(*value, i)
                                              : static_cast<float>(element<double>(*value, i));
  return numbers;
}

InputError GgufFile::key_error(std::string_view key, std::string_view what) const {
  return InputError(name_ + ": key '" + printable(key) + "': " + std::string(what));
}

InputError GgufFile::tensor_error(std::string_view tensor, std::string_view what) const {
  return InputError(name_ + ": tensor '" + printable(tensor) + "': " + std::string(what));
}

std::string printable(std::string_view text, std::size_t max_bytes) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string result;
  for (const char c : text.substr(0, max_bytes)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) {
      result += c;
    } else {
      result += "\\x";
      result += kHex[byte >> 4];
      result += kHex[byte & 15];
    }
  }
  if (text.size() > max_bytes) result += "...";
  return result;
}

}  // namespace kv
