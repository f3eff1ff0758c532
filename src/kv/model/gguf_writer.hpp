// Puts a GGUF file together: the counterpart of gguf.hpp.
//
// Source: the GGUF specification (ggml repository, docs/gguf.md), version 3.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kv/model/gguf.hpp"

namespace kv {

/// A GGUF file being put together, in memory. Values and tensors keep the order in which they are
/// added, so equal calls give equal bytes.
///
/// Invariant: no key and no tensor name occurs twice.
class GgufWriter {
 public:
  /// An empty file; tensors start at multiples of 32 bytes unless general.alignment is added.
  GgufWriter() = default;

  /// A value as it lies in another file, byte for byte.
  /// \throws std::invalid_argument when the key is there already
  void add(const GgufValue& value);
  /// A single unsigned number, `value`, under `key`.
  void add_u32(std::string_view key, std::uint32_t value);
  /// A single string, `text`, under `key`.
  void add_string(std::string_view key, std::string_view text);

  /// A tensor; its bytes are copied.
  ///
  /// \param name  at most 64 bytes
  /// \param dtype storage format
  /// \param dims  1 to 4 sizes, the contiguous one first
  /// \param bytes the packed rows, exactly as many as dims and dtype say
  /// \throws std::invalid_argument when one of these does not hold, or the name is there already
  void add_tensor(std::string_view name, DType dtype, std::span<const std::int64_t> dims,
                  std::span<const std::byte> bytes);

  /// The whole file. Every tensor, the last too, is filled up with zeros to the alignment.
  std::string str() const;

 private:
  struct Value {
    std::string key;
    std::string encoded;  // type and value
  };
  struct Tensor {
    std::string name;
    DType dtype;
    std::vector<std::int64_t> dims;
    std::string bytes;
  };

  void add_encoded(std::string_view key, std::string encoded);

  std::vector<Value> values_;
  std::vector<Tensor> tensors_;
  std::uint64_t alignment_ = 32;
};

}  // namespace kv
