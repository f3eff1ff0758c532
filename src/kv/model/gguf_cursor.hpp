// Reading the encoded parts of a GGUF file one after the other, never past its end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "kv/check.hpp"
#include "kv/model/gguf.hpp"

namespace kv {

/// Ends a message about bytes that no correct writer produces.
constexpr std::string_view kDamaged = "; the file is damaged or cut off: download it again";

/// A position in the file, and what is being read there, for messages.
class GgufCursor {
 public:
  /// \param file  path of the file, for messages; must outlive the cursor
  /// \param bytes the whole file
  GgufCursor(const std::string& file, std::span<const std::byte> bytes)
      : file_(file), left_(bytes) {}

  /// Names what is being read, for messages: `kind 'name'`, or `kind` alone.
  void enter(std::string_view kind, std::string_view name = {}) {
    kind_ = kind;
    name_ = name;
  }

  /// \throws InputError `<file>: <what is being read>: <what>`, always
  [[noreturn]] void fail(const std::string& what) const {
    std::string where = file_ + ": " + std::string(kind_);
    if (!name_.empty()) where += " '" + printable(name_) + "'";
    throw InputError(where + ": " + what);
  }

  /// What has not been read yet.
  std::span<const std::byte> left() const { return left_; }

  /// The next `num_bytes` bytes.
  /// \throws InputError when fewer are left
  std::span<const std::byte> take(std::uint64_t num_bytes) {
    if (num_bytes > left_.size())
      fail("needs " + std::to_string(num_bytes) + " bytes but only " +
           std::to_string(left_.size()) + " are left" + std::string(kDamaged));
    const auto taken = left_.first(static_cast<std::size_t>(num_bytes));
    left_ = left_.subspan(taken.size());
    return taken;
  }

  /// The next number, which need not be aligned.
  template <typename T>
  T read() {
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }

  /// A 64-bit length, then so many bytes.
  std::string_view read_string() {
    const auto text = take(read<std::uint64_t>());
    return {reinterpret_cast<const char*>(text.data()), text.size()};
  }

  /// Refuses a count of elements whose smallest encodings, min_bytes_each, could not fit in what is
  /// left; `what` names them in the message.
  void expect(std::uint64_t count, std::uint64_t min_bytes_each, const char* what) const {
    if (count > left_.size() / min_bytes_each)
      fail("claims " + std::to_string(count) + " " + what + " but only " +
           std::to_string(left_.size()) + " bytes are left" + std::string(kDamaged));
  }

 private:
  const std::string& file_;
  std::span<const std::byte> left_;
  std::string_view kind_;
  std::string_view name_;
};

}  // namespace kv
