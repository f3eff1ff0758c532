#include "kv/model/gguf_writer.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace kv {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF is written as little-endian");

template <typename T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

void put_string(std::string& out, std::string_view text) {
  put<std::uint64_t>(out, text.size());
  out += text;
}

void pad(std::string& out, std::uint64_t alignment) {
  out.resize((out.size() + alignment - 1) / alignment * alignment, '\0');
}

std::string_view view(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

void GgufWriter::add(const GgufValue& value) {
  if (value.key == "general.alignment") {
    const auto alignment = value.integer_at(0);
    require(alignment && *alignment > 0, "general.alignment must be a positive number");
    alignment_ = static_cast<std::uint64_t>(*alignment);
  }
  std::string encoded;
  if (value.is_array) {
    put(encoded, GgufType::array);
    put(encoded, value.type);
    put<std::uint64_t>(encoded, value.count);
  } else {
    put(encoded, value.type);
  }
  encoded += view(value.bytes);
  add_encoded(value.key, std::move(encoded));
}

void GgufWriter::add_u32(std::string_view key, std::uint32_t number) {
  GgufValue value;
  value.key = key;
  value.type = GgufType::u32;
  value.count = 1;
  value.bytes = std::as_bytes(std::span(&number, 1));
  add(value);
}

void GgufWriter::add_string(std::string_view key, std::string_view text) {
  std::string encoded;
  put(encoded, GgufType::string);
  put_string(encoded, text);
  add_encoded(key, std::move(encoded));
}

void GgufWriter::add_encoded(std::string_view key, std::string encoded) {
  require(std::ranges::find(values_, key, &Value::key) == values_.end(),
          "a key must not be added twice");
  values_.push_back({std::string(key), std::move(encoded)});
}

void GgufWriter::add_tensor(std::string_view name, DType dtype, std::span<const std::int64_t> dims,
                            std::span<const std::byte> bytes) {
  require(!name.empty() && name.size() <= 64, "a tensor's name takes 1 to 64 bytes");
  require(!dims.empty() && dims.size() <= 4, "a tensor has 1 to 4 dimensions");
  require(std::ranges::find(tensors_, name, &Tensor::name) == tensors_.end(),
          "a tensor must not be added twice");
  const DTypeInfo format = info(dtype);
  require(format.block_elements > 0 && dims[0] % format.block_elements == 0,
          "a tensor's rows must be whole blocks of a known format");
  std::int64_t num_bytes = dims[0] / format.block_elements * format.block_bytes;
  for (const std::int64_t dim : dims.subspan(1)) num_bytes *= dim;
  require(num_bytes == static_cast<std::int64_t>(bytes.size()),
          "a tensor's bytes must be as many as its shape and format say");
  tensors_.push_back(
      {std::string(name), dtype, {dims.begin(), dims.end()}, std::string(view(bytes))});
}

std::string GgufWriter::str() const {
  std::string out = "GGUF";
  put<std::uint32_t>(out, 3);
  put<std::uint64_t>(out, tensors_.size());
  put<std::uint64_t>(out, values_.size());
  for (const Value& value : values_) {
    put_string(out, value.key);
    out += value.encoded;
  }
  std::uint64_t offset = 0;
  for (const Tensor& tensor : tensors_) {
    put_string(out, tensor.name);
    put(out, static_cast<std::uint32_t>(tensor.dims.size()));
    for (const std::int64_t dim : tensor.dims) put(out, dim);
    put(out, tensor.dtype);
    put(out, offset);
    offset += (tensor.bytes.size() + alignment_ - 1) / alignment_ * alignment_;
  }
  if (!tensors_.empty()) pad(out, alignment_);
  out.reserve(out.size() + offset);
  for (const Tensor& tensor : tensors_) {
    out += tensor.bytes;
    pad(out, alignment_);
  }
  return out;
}

}  // namespace kv
