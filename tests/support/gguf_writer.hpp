// Writes GGUF bytes for tests: well-formed by default, hostile where a test asks for it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kv/dtype.hpp"
#include "kv/model/gguf.hpp"

namespace kv_test {

using Bytes = std::vector<std::byte>;

inline void append(Bytes& bytes, const void* data, std::size_t size) {
  // Not insert(): g++ 12 warns of reads that cannot happen when it inlines that.
  const std::size_t end = bytes.size();
  bytes.resize(end + size);
  if (size > 0) std::memcpy(bytes.data() + end, data, size);
}

/// Appends the bytes of a number.
template <typename T>
void put(Bytes& bytes, T value) {
  append(bytes, &value, sizeof(T));
}

/// Appends a 64-bit length and the text; `claimed` replaces the true length.
inline void put_string(Bytes& bytes, std::string_view text,
                       std::optional<std::uint64_t> claimed = std::nullopt) {
  put<std::uint64_t>(bytes, claimed.value_or(text.size()));
  append(bytes, text.data(), text.size());
}

/// The bytes of an array of numbers, as tensors store them.
template <typename T>
Bytes raw(const std::vector<T>& values) {
  Bytes bytes;
  for (const T value : values) put(bytes, value);
  return bytes;
}

/// A GGUF file being put together. Entries may be replaced or erased by name until bytes() is
/// called; the public overrides make the header lie.
class GgufWriter {
 public:
  std::uint32_t version = 3;
  std::uint64_t alignment = 32;  ///< used for the layout; write general.alignment to declare it
  std::optional<std::uint64_t> claimed_values;   ///< written instead of the number of values
  std::optional<std::uint64_t> claimed_tensors;  ///< written instead of the number of tensors

  struct Tensor {
    std::string name;
    std::uint32_t dtype = 0;
    std::vector<std::uint64_t> dims;  ///< innermost first, as in the file
    Bytes data;
    std::optional<std::uint64_t> offset = std::nullopt;  ///< written instead of the true one
  };

  /// Sets a value from its type number and encoded bytes.
  GgufWriter& value(const std::string& key, std::uint32_t type, Bytes encoded) {
    erase(key);
    values_.push_back({key, type, std::move(encoded)});
    return *this;
  }
  /// Adds a value even if the key is there already.
  GgufWriter& duplicate(const std::string& key, std::uint32_t type, Bytes encoded) {
    values_.push_back({key, type, std::move(encoded)});
    return *this;
  }
  GgufWriter& erase(const std::string& key) {
    std::erase_if(values_, [&](const Value& v) { return v.key == key; });
    return *this;
  }

  GgufWriter& u32(const std::string& key, std::uint32_t x) { return number(key, 4, x); }
  GgufWriter& i32(const std::string& key, std::int32_t x) { return number(key, 5, x); }
  GgufWriter& f32(const std::string& key, float x) { return number(key, 6, x); }
  GgufWriter& u64(const std::string& key, std::uint64_t x) { return number(key, 10, x); }
  GgufWriter& boolean(const std::string& key, bool x) {
    return number(key, 7, static_cast<std::uint8_t>(x));
  }
  GgufWriter& string(const std::string& key, std::string_view text) {
    Bytes encoded;
    put_string(encoded, text);
    return value(key, 8, std::move(encoded));
  }
  GgufWriter& strings(const std::string& key, const std::vector<std::string>& texts) {
    Bytes encoded = array_header(8, texts.size());
    for (const std::string& text : texts) put_string(encoded, text);
    return value(key, 9, std::move(encoded));
  }
  GgufWriter& floats(const std::string& key, const std::vector<float>& numbers) {
    return array(key, 6, numbers);
  }
  GgufWriter& i32s(const std::string& key, const std::vector<std::int32_t>& numbers) {
    return array(key, 5, numbers);
  }
  template <typename T>
  GgufWriter& array(const std::string& key, std::uint32_t type, const std::vector<T>& numbers) {
    Bytes encoded = array_header(type, numbers.size());
    for (const T x : numbers) put(encoded, x);
    return value(key, 9, std::move(encoded));
  }
  static Bytes array_header(std::uint32_t type, std::uint64_t count) {
    Bytes encoded;
    put(encoded, type);
    put(encoded, count);
    return encoded;
  }

  /// Adds a tensor, or replaces the one of that name in its place.
  GgufWriter& tensor(Tensor tensor) {
    const auto same = std::ranges::find(tensors_, tensor.name, &Tensor::name);
    if (same != tensors_.end()) {
      *same = std::move(tensor);
    } else {
      tensors_.push_back(std::move(tensor));
    }
    return *this;
  }
  GgufWriter& tensor(const std::string& name, kv::DType dtype, std::vector<std::uint64_t> dims,
                     Bytes data) {
    return tensor({name, static_cast<std::uint32_t>(dtype), std::move(dims), std::move(data)});
  }
  /// Adds a tensor even if the name is there already.
  GgufWriter& duplicate_tensor(Tensor tensor) {
    tensors_.push_back(std::move(tensor));
    return *this;
  }
  GgufWriter& erase_tensor(const std::string& name) {
    std::erase_if(tensors_, [&](const Tensor& t) { return t.name == name; });
    return *this;
  }
  /// The tensor `name`, to be changed in place.
  Tensor& at(const std::string& name) { return *std::ranges::find(tensors_, name, &Tensor::name); }

  /// The whole file; the last tensor is not padded, so the file ends with its last byte.
  Bytes bytes() const {
    Bytes out;
    append(out, "GGUF", 4);
    put(out, version);
    put<std::uint64_t>(out, claimed_tensors.value_or(tensors_.size()));
    put<std::uint64_t>(out, claimed_values.value_or(values_.size()));
    for (const Value& v : values_) {
      put_string(out, v.key);
      put(out, v.type);
      append(out, v.encoded.data(), v.encoded.size());
    }
    Bytes data;
    for (const Tensor& t : tensors_) {
      pad(data);
      put_string(out, t.name);
      put(out, static_cast<std::uint32_t>(t.dims.size()));
      for (const std::uint64_t dim : t.dims) put(out, dim);
      put(out, t.dtype);
      put<std::uint64_t>(out, t.offset.value_or(data.size()));
      append(data, t.data.data(), t.data.size());
    }
    if (!tensors_.empty()) pad(out);
    append(out, data.data(), data.size());
    return out;
  }

 private:
  struct Value {
    std::string key;
    std::uint32_t type = 0;
    Bytes encoded;
  };

  template <typename T>
  GgufWriter& number(const std::string& key, std::uint32_t type, T x) {
    Bytes encoded;
    put(encoded, x);
    return value(key, type, std::move(encoded));
  }
  void pad(Bytes& out) const {
    while (out.size() % alignment != 0) out.push_back(std::byte{0});
  }

  std::vector<Value> values_;
  std::vector<Tensor> tensors_;
};

/// A complete model of architecture "llama", as small as one can be: 1 layer, 2 query heads on
/// 1 KV head of 4, d_model 8, ffn_dim 8, vocabulary 8, F32, tied. Every weight is a small number.
inline GgufWriter tiny_llama() {
  GgufWriter w;
  w.string("general.architecture", "llama").string("general.name", "tiny");
  w.u32("llama.context_length", 16).u32("llama.embedding_length", 8).u32("llama.block_count", 1);
  w.u32("llama.feed_forward_length", 8).u32("llama.attention.head_count", 2);
  w.u32("llama.attention.head_count_kv", 1).u32("llama.rope.dimension_count", 4);
  w.f32("llama.attention.layer_norm_rms_epsilon", 1e-5f).f32("llama.rope.freq_base", 10000.0f);
  const auto add = [&w](const std::string& name, std::vector<std::uint64_t> dims) {
    std::uint64_t num_elements = 1;
    for (const std::uint64_t dim : dims) num_elements *= dim;
    std::vector<float> values(num_elements);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(i % 7) / 8.0f - 0.25f;
    w.tensor(name, kv::DType::f32, std::move(dims), raw(values));
  };
  add("token_embd.weight", {8, 8});
  add("blk.0.attn_norm.weight", {8});
  add("blk.0.attn_q.weight", {8, 8});
  add("blk.0.attn_k.weight", {8, 4});
  add("blk.0.attn_v.weight", {8, 4});
  add("blk.0.attn_output.weight", {8, 8});
  add("blk.0.ffn_norm.weight", {8});
  add("blk.0.ffn_gate.weight", {8, 8});
  add("blk.0.ffn_up.weight", {8, 8});
  add("blk.0.ffn_down.weight", {8, 8});
  add("output_norm.weight", {8});
  return w;
}

}  // namespace kv_test
