// GGUF: the file format in which small language models are passed around.
//
// A file is  header | metadata (key -> typed value) | tensor table | padding | tensor data.
// Nothing is copied out of it: strings, arrays and tensors are views into the mapped bytes.
// The file is not trusted. Every count, length and offset is compared with the bytes that are left
// before it is used, and always as `wanted > left`, because `position + wanted` could wrap around.
//
// Source: the GGUF specification (ggml repository, docs/gguf.md), versions 2 and 3.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kv/check.hpp"
#include "kv/dtype.hpp"

namespace kv {

/// Types of metadata values; the numbers are those of the file format.
enum class GgufType : std::uint32_t {
  u8 = 0,       ///< 1 byte, unsigned
  i8 = 1,       ///< 1 byte, two's complement
  u16 = 2,      ///< 2 bytes, unsigned
  i16 = 3,      ///< 2 bytes, two's complement
  u32 = 4,      ///< 4 bytes, unsigned
  i32 = 5,      ///< 4 bytes, two's complement
  f32 = 6,      ///< 4 bytes, IEEE 754 binary32
  boolean = 7,  ///< 1 byte: 0 or 1
  string = 8,   ///< a u64 length in bytes, then the text without a final zero
  array = 9,    ///< a u32 type, a u64 count, then the elements
  u64 = 10,     ///< 8 bytes, unsigned
  i64 = 11,     ///< 8 bytes, two's complement
  f64 = 12,     ///< 8 bytes, IEEE 754 binary64
};

/// One metadata value, not yet decoded: `count` elements of `type`, packed in `bytes`.
struct GgufValue {
  std::string_view key;              ///< its name, e.g. "llama.block_count"
  GgufType type = GgufType::u8;      ///< of the value, or of the elements when is_array
  bool is_array = false;             ///< false: a single value, count 1
  std::uint64_t count = 0;           ///< elements
  std::span<const std::byte> bytes;  ///< the encoded elements; not aligned

  /// Element `i` of an integer value, or nullopt when the type is another or above 2^63 - 1.
  /// \param i in [0, count), not checked
  std::optional<std::int64_t> integer_at(std::uint64_t i) const;
};

/// One tensor: its shape and where its bytes lie in the mapped file.
struct GgufTensor {
  std::string_view name;                  ///< e.g. "blk.0.attn_k.weight"
  DType dtype = DType::f32;               ///< storage format
  int num_dims = 0;                       ///< 1 to 4
  std::array<std::int64_t, 4> dims = {};  ///< dims[0] is contiguous (a row); unused ones are 1
  std::span<const std::byte> bytes;       ///< the packed rows

  std::int64_t row_length() const { return dims[0]; }                    ///< elements of a row
  std::int64_t num_rows() const { return dims[1] * dims[2] * dims[3]; }  ///< rows in all
};

/// An open GGUF file. Immutable; every view it gives out lives as long as the file object.
class GgufFile {
 public:
  /// Maps the file at `path` and checks its structure (header, metadata, tensor table).
  ///
  /// \throws InputError naming the file, and the key or tensor at fault
  static std::shared_ptr<const GgufFile> open(const std::string& path);

  /// The same for bytes in memory, which are copied; for tests and fuzzing.
  ///
  /// \param bytes a whole GGUF file
  /// \param name  stands in messages where the path would
  /// \throws InputError as open()
  static std::shared_ptr<const GgufFile> from_memory(std::span<const std::byte> bytes,
                                                     std::string name);

  const std::string& name() const { return name_; }                 ///< path, for messages
  std::uint32_t version() const { return version_; }                ///< 2 or 3
  std::span<const GgufValue> values() const { return values_; }     ///< sorted by key
  std::span<const GgufTensor> tensors() const { return tensors_; }  ///< in file order

  /// \return the value of `key`, or null when the file does not have it
  const GgufValue* find(std::string_view key) const;
  /// \return the tensor `name`, or null when the file does not have it
  const GgufTensor* find_tensor(std::string_view name) const;

  // Typed access. A missing key gives nullopt; a value of the wrong type throws InputError.

  /// A single integer of any width; values above 2^63 - 1 are refused.
  std::optional<std::int64_t> integer(std::string_view key) const;
  /// A single float or double; integers are not taken for numbers.
  std::optional<double> number(std::string_view key) const;
  /// A single true or false.
  std::optional<bool> boolean(std::string_view key) const;
  /// A single string; any bytes, NUL included.
  std::optional<std::string_view> string(std::string_view key) const;
  /// An array of strings, as views (16 bytes for each string, which takes at least 8 in the file).
  std::optional<std::vector<std::string_view>> strings(std::string_view key) const;
  /// An array of integers of any width, widened to 8 bytes each.
  std::optional<std::vector<std::int64_t>> integers(std::string_view key) const;
  /// An array of floats (f32, or f64 rounded to it).
  std::optional<std::vector<float>> floats(std::string_view key) const;

  /// The error "FILE: key KEY: WHAT" for `key` and `what`, for callers that check values further.
  InputError key_error(std::string_view key, std::string_view what) const;
  /// The error "FILE: tensor TENSOR: WHAT" for `tensor` and `what`.
  InputError tensor_error(std::string_view tensor, std::string_view what) const;

 private:
  GgufFile(std::string name, std::span<const std::byte> bytes, std::shared_ptr<const void> owner);

  std::string name_;
  std::span<const std::byte> bytes_;
  std::shared_ptr<const void> owner_;  // the mapping, or the copy
  std::uint32_t version_ = 0;
  std::vector<GgufValue> values_;
  std::vector<GgufTensor> tensors_;
  std::vector<std::size_t> tensors_by_name_;  // indices into tensors_, sorted by name
};

/// Text from a file made fit for a one-line message: control characters and bytes that are not
/// ASCII become \\xNN, and what exceeds `max_bytes` is cut and marked with "...".
std::string printable(std::string_view text, std::size_t max_bytes = 80);

}  // namespace kv
