// The GGUF writer: what it writes, the reader reads back, byte for byte.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <string>
#include <vector>

#include "kv/model/gguf.hpp"
#include "kv/model/gguf_writer.hpp"
#include "support/gguf_writer.hpp"

using kv::DType;
using kv_test::Bytes, kv_test::put, kv_test::put_string, kv_test::raw;

namespace {

std::shared_ptr<const kv::GgufFile> opened(const kv::GgufWriter& writer) {
  const std::string text = writer.str();
  return kv::GgufFile::from_memory(std::as_bytes(std::span(text)), "written.gguf");
}

template <typename T>
Bytes encoded(T x) {
  Bytes bytes;
  put(bytes, x);
  return bytes;
}

// A value of every type that the format has, single and in arrays, and an array of arrays.
kv_test::GgufWriter every_type() {
  kv_test::GgufWriter w;
  w.value("u8", 0, encoded(std::uint8_t{200})).value("i8", 1, encoded(std::int8_t{-3}));
  w.value("u16", 2, encoded(std::uint16_t{60000})).value("i16", 3, encoded(std::int16_t{-9}));
  w.u32("u32", 4000000000u).i32("i32", -70000).f32("f32", 0.1f).boolean("bool", true);
  w.string("string", std::string_view("a\0b", 3)).u64("u64", ~std::uint64_t{0});
  w.value("i64", 11, encoded(std::int64_t{-1})).value("f64", 12, encoded(0.1));
  w.strings("strings", {"", "one", "two words"}).floats("floats", {1.0f, -2.5f}).i32s("none", {});
  Bytes nested = kv_test::GgufWriter::array_header(9, 2);
  for (const std::uint16_t x : {std::uint16_t{1}, std::uint16_t{2}}) {
    kv_test::append(nested, kv_test::GgufWriter::array_header(2, 1).data(), 12);
    put(nested, x);
  }
  w.value("nested", 9, nested);
  return w;
}

}  // namespace

TEST_CASE("GGUF writer: a file written from nothing reads back", "[gguf]") {
  kv::GgufWriter writer;
  writer.add_string("general.architecture", "llama");
  writer.add_u32("llama.block_count", 7);
  const std::vector<float> row = {1.0f, -2.0f, 0.5f};
  const std::int64_t vector_dims[] = {3}, matrix_dims[] = {32, 2};
  const Bytes q8(2 * 34, std::byte{17});
  writer.add_tensor("norm", DType::f32, vector_dims, std::as_bytes(std::span(row)));
  writer.add_tensor("matrix", DType::q8_0, matrix_dims, q8);

  const auto file = opened(writer);
  CHECK(file->version() == 3);
  CHECK(file->values().size() == 2);
  CHECK(file->string("general.architecture") == "llama");
  CHECK(file->integer("llama.block_count") == 7);
  REQUIRE(file->tensors().size() == 2);
  const kv::GgufTensor& norm = file->tensors()[0];
  CHECK(norm.name == "norm");
  CHECK(norm.num_dims == 1);
  CHECK(norm.row_length() == 3);
  CHECK(std::memcmp(norm.bytes.data(), row.data(), 12) == 0);
  const kv::GgufTensor& matrix = file->tensors()[1];
  CHECK(matrix.dtype == DType::q8_0);
  CHECK(matrix.num_rows() == 2);
  CHECK(std::ranges::equal(matrix.bytes, q8));
}

TEST_CASE("GGUF writer: values of every type are carried over byte for byte", "[gguf]") {
  const Bytes original = every_type().bytes();
  const auto file = kv::GgufFile::from_memory(original, "original.gguf");
  REQUIRE(file->values().size() == 16);
  kv::GgufWriter writer;
  for (const kv::GgufValue& value : file->values()) writer.add(value);
  const auto copy = opened(writer);
  REQUIRE(copy->values().size() == file->values().size());
  for (std::size_t i = 0; i < file->values().size(); ++i) {
    const kv::GgufValue &a = file->values()[i], &b = copy->values()[i];
    INFO(a.key);
    CHECK(a.key == b.key);
    CHECK(a.type == b.type);
    CHECK(a.is_array == b.is_array);
    CHECK(a.count == b.count);
    CHECK(std::ranges::equal(a.bytes, b.bytes));
  }
  // The same order as the file's gives the same file.
  kv::GgufWriter ordered;
  for (const char* key : {"u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "u64",
                          "i64", "f64", "strings", "floats", "none", "nested"})
    ordered.add(*file->find(key));
  const std::string text = ordered.str();
  CHECK(std::ranges::equal(std::as_bytes(std::span(text)), original));
}

TEST_CASE(
    "GGUF writer: every tensor starts at a multiple of the alignment, and the file ends there",
    "[gguf]") {
  for (const std::uint32_t alignment : {0u, 8u, 64u, 4096u}) {  // 0: the default, 32
    kv::GgufWriter writer;
    if (alignment > 0) writer.add_u32("general.alignment", alignment);
    const std::uint32_t expected = alignment > 0 ? alignment : 32;
    const std::vector<float> values = {1.0f, 2.0f, 3.0f};
    for (const std::int64_t length : {1, 3, 2}) {
      const std::int64_t dims[] = {length};
      writer.add_tensor("tensor" + std::to_string(length), DType::f32, dims,
                        std::as_bytes(std::span(values).first(static_cast<std::size_t>(length))));
    }
    const auto file = opened(writer);
    CHECK(writer.str().size() % expected == 0);
    REQUIRE(file->tensors().size() == 3);
    const std::byte* next = file->tensors()[0].bytes.data();
    for (const kv::GgufTensor& tensor : file->tensors()) {
      CHECK(tensor.bytes.data() == next);
      CHECK(std::memcmp(tensor.bytes.data(), values.data(), tensor.bytes.size()) == 0);
      next += (tensor.bytes.size() + expected - 1) / expected * expected;
    }
  }
}

TEST_CASE("GGUF writer: without tensors the file ends with its last value", "[gguf]") {
  kv::GgufWriter writer;
  CHECK(writer.str().size() == 4 + 4 + 8 + 8);
  CHECK(opened(writer)->values().empty());
  writer.add_u32("one", 1);
  CHECK(writer.str().size() == 24 + 8 + 3 + 4 + 4);
}

TEST_CASE("GGUF writer: misuse is refused", "[gguf]") {
  kv::GgufWriter writer;
  writer.add_u32("key", 1);
  CHECK_THROWS_AS(writer.add_string("key", "again"), std::invalid_argument);
  CHECK_THROWS_AS(writer.add_u32("general.alignment", 0), std::invalid_argument);

  const Bytes bytes(34);
  const std::int64_t dims[] = {32}, short_dims[] = {31}, five[] = {32, 1, 1, 1, 1};
  const std::span<const std::byte> all(bytes);
  writer.add_tensor("tensor", DType::q8_0, dims, all);
  CHECK_THROWS_AS(writer.add_tensor("tensor", DType::q8_0, dims, all), std::invalid_argument);
  CHECK_THROWS_AS(writer.add_tensor("", DType::q8_0, dims, all), std::invalid_argument);
  CHECK_THROWS_AS(writer.add_tensor(std::string(65, 'x'), DType::q8_0, dims, all),
                  std::invalid_argument);
  CHECK_THROWS_AS(writer.add_tensor("short", DType::q8_0, short_dims, all), std::invalid_argument);
  CHECK_THROWS_AS(writer.add_tensor("five", DType::q8_0, five, all), std::invalid_argument);
  CHECK_THROWS_AS(writer.add_tensor("few", DType::q8_0, dims, all.first(33)),
                  std::invalid_argument);
  CHECK_THROWS_AS(writer.add_tensor("unknown", DType{99}, dims, all), std::invalid_argument);
}
