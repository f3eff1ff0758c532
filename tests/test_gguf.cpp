// The container: a well-formed file is read back exactly, a hostile one is refused in one line.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kv/model/gguf.hpp"
#include "support/gguf_writer.hpp"

using Catch::Matchers::ContainsSubstring;
using kv::DType;
using kv::GgufFile;
using kv::GgufType;
using kv_test::Bytes;
using kv_test::GgufWriter;
using kv_test::put;
using kv_test::put_string;

namespace {

std::shared_ptr<const GgufFile> open(const Bytes& bytes) {
  return GgufFile::from_memory(bytes, "test.gguf");
}
std::shared_ptr<const GgufFile> open(const GgufWriter& writer) { return open(writer.bytes()); }

/// The message of the InputError that opening gives; empty when the file is accepted.
template <typename Source>
std::string refusal(const Source& source) {
  try {
    open(source);
  } catch (const kv::InputError& error) {
    return error.what();
  }
  return "";
}

/// One key of any type number and bytes.
GgufWriter one_value(std::uint32_t type, Bytes encoded) {
  GgufWriter w;
  w.value("k", type, std::move(encoded));
  return w;
}

/// Two F32 tensors of 8 elements, which lie at offsets 0 and 32.
GgufWriter two_tensors() {
  GgufWriter w;
  const std::vector<float> a = {1, 2, 3, 4, 5, 6, 7, 8}, b = {9, 10, 11, 12, 13, 14, 15, 16};
  w.tensor("a", DType::f32, {8}, kv_test::raw(a)).tensor("b", DType::f32, {4, 2}, kv_test::raw(b));
  return w;
}

constexpr std::uint64_t kHuge[] = {std::uint64_t{1} << 40, std::uint64_t{1} << 63,
                                   (std::uint64_t{1} << 63) - 1, ~std::uint64_t{0},
                                   ~std::uint64_t{0} - 31};

}  // namespace

TEST_CASE("gguf: values of every type are read back", "[gguf]") {
  GgufWriter w;
  const auto number = [&w](const std::string& key, std::uint32_t type, auto x) {
    Bytes encoded;
    put(encoded, x);
    w.value(key, type, std::move(encoded));
  };
  number("u8", 0, std::uint8_t{200});
  number("i8", 1, std::int8_t{-100});
  number("u16", 2, std::uint16_t{60000});
  number("i16", 3, std::int16_t{-30000});
  number("f64", 12, 0.1);
  number("i64", 11, std::int64_t{-1} << 62);
  w.u32("u32", 4000000000u).i32("i32", -5).f32("f32", 0.5f).u64("u64", 1ull << 62);
  w.boolean("yes", true).boolean("no", false).string("text", std::string("a\0b", 3));
  w.strings("words", {"", "one", std::string("t\0o", 3)}).floats("floats", {1.5f, -2.0f});
  w.i32s("ints", {3, -4}).array<double>("doubles", 12, {0.25}).strings("none", {});
  const auto file = open(w);

  CHECK(file->version() == 3);
  CHECK(file->integer("u8") == 200);
  CHECK(file->integer("i8") == -100);
  CHECK(file->integer("u16") == 60000);
  CHECK(file->integer("i16") == -30000);
  CHECK(file->integer("u32") == 4000000000);
  CHECK(file->integer("i32") == -5);
  CHECK(file->integer("u64") == std::int64_t{1} << 62);
  CHECK(file->integer("i64") == -(std::int64_t{1} << 62));
  CHECK(file->number("f32") == 0.5);
  CHECK(file->number("f64") == 0.1);
  CHECK(file->boolean("yes") == true);
  CHECK(file->boolean("no") == false);
  CHECK(file->string("text") == std::string_view("a\0b", 3));
  CHECK(file->strings("words") == std::vector<std::string_view>{"", "one", {"t\0o", 3}});
  CHECK(file->strings("none")->empty());
  CHECK(file->floats("floats") == std::vector<float>{1.5f, -2.0f});
  CHECK(file->floats("doubles") == std::vector<float>{0.25f});
  CHECK(file->integers("ints") == std::vector<std::int64_t>{3, -4});
  CHECK_FALSE(file->integer("missing"));
  CHECK_FALSE(file->strings("missing"));
  CHECK(file->find("u8")->type == GgufType::u8);
}

TEST_CASE("gguf: a value of another type is an error that names file and key", "[gguf]") {
  GgufWriter w;
  w.u32("int", 1).f32("float", 1).string("text", "x").u64("big", 1ull << 63).i32s("ints", {1});
  const auto file = open(w);
  CHECK_THROWS_WITH(file->string("int"),
                    "test.gguf: key 'int': is a u32, not a string; convert the model again");
  CHECK_THROWS_AS(file->integer("float"), kv::InputError);
  CHECK_THROWS_AS(file->number("int"), kv::InputError);
  CHECK_THROWS_AS(file->boolean("int"), kv::InputError);
  CHECK_THROWS_AS(file->integer("ints"), kv::InputError);
  CHECK_THROWS_AS(file->strings("text"), kv::InputError);
  CHECK_THROWS_AS(file->floats("ints"), kv::InputError);
  CHECK_THROWS_WITH(file->integer("big"), ContainsSubstring("9223372036854775808 is too large"));
}

TEST_CASE("gguf: two tensors at offsets 0 and 32 both load", "[gguf]") {
  const auto file = open(two_tensors());
  const kv::GgufTensor* a = file->find_tensor("a");
  const kv::GgufTensor* b = file->find_tensor("b");
  REQUIRE(a != nullptr);
  REQUIRE(b != nullptr);
  CHECK(reinterpret_cast<const float*>(a->bytes.data())[0] == 1.0f);
  CHECK(reinterpret_cast<const float*>(b->bytes.data())[7] == 16.0f);
  CHECK(b->bytes.data() - a->bytes.data() == 32);
  CHECK(b->row_length() == 4);
  CHECK(b->num_rows() == 2);
  CHECK(file->find_tensor("c") == nullptr);
}

TEST_CASE("gguf: version 2 and a declared alignment are understood", "[gguf]") {
  GgufWriter w = two_tensors();
  w.version = 2;
  w.alignment = 64;
  w.u32("general.alignment", 64);
  const auto file = open(w);
  CHECK(file->version() == 2);
  CHECK(reinterpret_cast<const float*>(file->find_tensor("b")->bytes.data())[0] == 9.0f);
}

TEST_CASE("gguf: a file cut at any byte is refused", "[gguf]") {
  GgufWriter w = kv_test::tiny_llama();
  w.strings("words", {"a", "bc"}).boolean("b", true);
  const Bytes whole = w.bytes();
  REQUIRE(refusal(whole).empty());  // and its last byte is the last byte of the last tensor
  for (std::size_t length = 0; length < whole.size(); ++length) {
    INFO("first " << length << " bytes");
    const std::string message = refusal(Bytes(whole.begin(), whole.begin() + length));
    REQUIRE_THAT(message, ContainsSubstring("test.gguf: "));
  }
}

TEST_CASE("gguf: counts and lengths beyond the file are refused", "[gguf]") {
  for (const std::uint64_t huge : kHuge) {
    INFO(huge);
    GgufWriter values, tensors;
    values.claimed_values = huge;
    tensors.claimed_tensors = huge;
    CHECK_THAT(refusal(values), ContainsSubstring("metadata values but only 0 bytes are left"));
    CHECK_THAT(refusal(tensors), ContainsSubstring("tensors but only 0 bytes are left"));
    Bytes text;
    put_string(text, "abc", huge);
    CHECK_THAT(refusal(one_value(8, text)), ContainsSubstring("key 'k': needs"));
    for (std::uint32_t type = 0; type <= 12; ++type) {
      const std::string message = refusal(one_value(9, GgufWriter::array_header(type, huge)));
      CHECK_THAT(message, ContainsSubstring("key 'k': claims"));
    }
  }
}

TEST_CASE("gguf: a string or an array one byte longer than the rest is refused", "[gguf]") {
  Bytes text, array = GgufWriter::array_header(0, 4);
  put_string(text, "abc", 4);
  array.resize(array.size() + 3);
  CHECK_THAT(refusal(one_value(8, text)), ContainsSubstring("needs 4 bytes but only 3 are left"));
  CHECK_THAT(refusal(one_value(9, array)), ContainsSubstring("claims 4 elements but only 3"));
  array.resize(array.size() + 1);
  CHECK(refusal(one_value(9, array)).empty());
}

TEST_CASE("gguf: unknown value types are refused, alone and as elements", "[gguf]") {
  for (const std::uint32_t type : {13u, 255u, 0x80000000u, 0xffffffffu}) {
    const std::string what = "key 'k': unknown value type " + std::to_string(type);
    CHECK_THAT(refusal(one_value(type, Bytes(64))), ContainsSubstring(what));
    CHECK_THAT(refusal(one_value(9, GgufWriter::array_header(type, 0))), ContainsSubstring(what));
  }
}

TEST_CASE("gguf: arrays of arrays are walked to a small depth and refused beyond it", "[gguf]") {
  const auto nested = [](int depth) {
    Bytes encoded;
    for (int i = 1; i < depth; ++i) {
      put<std::uint32_t>(encoded, 9);
      put<std::uint64_t>(encoded, 1);
    }
    put<std::uint32_t>(encoded, 0);
    put<std::uint64_t>(encoded, 1);
    encoded.push_back(std::byte{7});
    return one_value(9, encoded);
  };
  CHECK(refusal(nested(1)).empty());
  CHECK(refusal(nested(4)).empty());
  CHECK_THAT(refusal(nested(5)), ContainsSubstring("nested deeper than 4"));
  CHECK_THAT(refusal(nested(10000)), ContainsSubstring("nested deeper than 4"));
  CHECK_THAT(refusal(nested(1000000)), ContainsSubstring("nested deeper than 4"));
}

TEST_CASE("gguf: a bool that is neither 0 nor 1 is refused", "[gguf]") {
  CHECK_THAT(refusal(one_value(7, {std::byte{2}})), ContainsSubstring("a bool is 2"));
  Bytes array = GgufWriter::array_header(7, 2);
  array.insert(array.end(), {std::byte{1}, std::byte{255}});
  CHECK_THAT(refusal(one_value(9, array)), ContainsSubstring("a bool is 255"));
}

TEST_CASE("gguf: names that repeat, are empty, too long or hold a NUL are refused", "[gguf]") {
  GgufWriter twice = two_tensors();
  twice.u32("k", 1).duplicate("k", 4, kv_test::raw<std::uint32_t>({2}));
  CHECK_THAT(refusal(twice), ContainsSubstring("key 'k': occurs twice"));
  GgufWriter twin = two_tensors();
  twin.duplicate_tensor({"a", 0, {1}, Bytes(4)});
  CHECK_THAT(refusal(twin), ContainsSubstring("tensor 'a': occurs twice"));
  CHECK_THAT(refusal(GgufWriter().u32("", 1)), ContainsSubstring("key: its name is empty"));
  CHECK_THAT(refusal(GgufWriter().u32(std::string("a\0b", 3), 1)),
             ContainsSubstring("key 'a\\x00b': its name contains a NUL"));
  CHECK(refusal(GgufWriter().u32(std::string(65535, 'k'), 1)).empty());
  CHECK_THAT(refusal(GgufWriter().u32(std::string(65536, 'k'), 1)), ContainsSubstring("kkk...'"));
  CHECK(refusal(GgufWriter().tensor(std::string(64, 't'), DType::f32, {1}, Bytes(4))).empty());
  CHECK_THAT(refusal(GgufWriter().tensor(std::string(65, 't'), DType::f32, {1}, Bytes(4))),
             ContainsSubstring("its name is 65 bytes long"));
  const std::string line = refusal(GgufWriter().tensor("a\nb\x1b", DType::f32, {0}, {}));
  CHECK_THAT(line,
             ContainsSubstring("tensor 'a\\x0ab\\x1b'"));  // one line, nothing to the terminal
}

TEST_CASE("gguf: a header of another kind is named", "[gguf]") {
  const auto with_version = [](std::uint32_t version) {
    GgufWriter w;
    w.version = version;
    return refusal(w);
  };
  CHECK_THAT(with_version(0), ContainsSubstring("unknown GGUF version 0"));
  CHECK_THAT(with_version(1), ContainsSubstring("version 1 is no longer in use"));
  CHECK_THAT(with_version(4), ContainsSubstring("unknown GGUF version 4"));
  CHECK_THAT(with_version(0x03000000), ContainsSubstring("big-endian"));
  Bytes other(64, std::byte{'x'});
  CHECK_THAT(refusal(other), ContainsSubstring("not a GGUF file (it begins with 'xxxx'"));
  CHECK_THAT(refusal(Bytes()), ContainsSubstring("is empty"));
}

TEST_CASE("gguf: an alignment must be a sane power of two", "[gguf]") {
  for (const std::uint32_t bad : {0u, 1u, 4u, 24u, 33u, 1u << 21, 1u << 31, 0xffffffffu}) {
    INFO(bad);
    GgufWriter w = two_tensors();
    CHECK_THAT(refusal(w.u32("general.alignment", bad)),
               ContainsSubstring("key 'general.alignment': " + std::to_string(bad)));
  }
  GgufWriter w = two_tensors();
  CHECK_THAT(refusal(w.string("general.alignment", "32")), ContainsSubstring("not an integer"));
}

TEST_CASE("gguf: tensor offsets must be aligned, in order and inside the file", "[gguf]") {
  const auto with_offset = [](const char* name, std::uint64_t offset) {
    GgufWriter w = two_tensors();
    w.at(name).offset = offset;
    return refusal(w);
  };
  CHECK_THAT(with_offset("b", 33), ContainsSubstring("tensor 'b': offset 33 is not a multiple"));
  CHECK_THAT(with_offset("b", 0), ContainsSubstring("tensor 'b': offset 0 overlaps or precedes"));
  CHECK_THAT(with_offset("a", 32), ContainsSubstring("tensor 'b': offset 32 overlaps"));
  CHECK_THAT(with_offset("b", 64), ContainsSubstring("tensor 'b': needs 8 blocks"));
  CHECK_THAT(with_offset("b", 96), ContainsSubstring("tensor 'b': offset 96 lies beyond"));
  for (const std::uint64_t huge : {1ull << 40, 1ull << 63, ~0ull - 31})
    CHECK_THAT(with_offset("b", huge), ContainsSubstring("tensor 'b': offset"));
  GgufWriter gap = two_tensors();  // room between tensors is harmless
  gap.at("a").data.resize(96);
  CHECK(refusal(gap).empty());
}

TEST_CASE("gguf: tensor shapes must be possible", "[gguf]") {
  const auto with_dims = [](DType dtype, std::vector<std::uint64_t> dims) {
    GgufWriter w;
    w.tensor("t", dtype, std::move(dims), Bytes(64));
    return refusal(w);
  };
  CHECK(with_dims(DType::f32, {2, 2, 2, 2}).empty());
  CHECK(with_dims(DType::q8_0, {32}).empty());
  CHECK_THAT(with_dims(DType::f32, {}), ContainsSubstring("tensor 't': has 0 dimensions"));
  CHECK_THAT(with_dims(DType::f32, {1, 1, 1, 1, 1}), ContainsSubstring("has 5 dimensions"));
  CHECK_THAT(with_dims(DType::f32, {4, 0}), ContainsSubstring("dimension 1 is 0"));
  CHECK_THAT(with_dims(DType::f32, {17}), ContainsSubstring("needs 17 blocks of 4 bytes"));
  CHECK_THAT(with_dims(DType::q8_0, {16, 2}), ContainsSubstring("not whole blocks of 32"));
  CHECK_THAT(with_dims(DType::q4_k, {128, 2}), ContainsSubstring("not whole blocks of 256"));
  for (const std::uint64_t huge : kHuge) {
    CHECK_THAT(with_dims(DType::f32, {huge}), ContainsSubstring("tensor 't'"));
    CHECK_THAT(with_dims(DType::f32, {huge, huge}), ContainsSubstring("tensor 't'"));
  }
  // 2^32 * 2^32 and 2^16 to the fourth are 0 in 64 bits; 2^62 floats are 0 bytes in 64 bits.
  CHECK_THAT(with_dims(DType::f32, {1ull << 32, 1ull << 32}), ContainsSubstring("too large"));
  CHECK_THAT(with_dims(DType::f32, {65536, 65536, 65536, 65536}), ContainsSubstring("too large"));
  CHECK_THAT(with_dims(DType::f32, {1ull << 62}), ContainsSubstring("blocks of 4 bytes"));
  CHECK_THAT(with_dims(static_cast<DType>(13), {256}),
             ContainsSubstring("tensor 't': storage type 13 is not supported; use a file"));
  CHECK_THAT(with_dims(static_cast<DType>(0xffffffff), {256}), ContainsSubstring("4294967295"));
}
