// The seeds of fuzz_gguf: small files that reach deep into the reader. Hidden case: writes them.
//
//     test_gguf_seeds "[write]"
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "support/gguf_writer.hpp"

using kv::DType;
using kv_test::Bytes;
using kv_test::GgufWriter;
using kv_test::tiny_llama;

namespace {

std::vector<std::pair<std::string, Bytes>> seeds() {
  std::vector<std::pair<std::string, Bytes>> result;
  result.emplace_back("tiny_llama", tiny_llama().bytes());

  GgufWriter rope = tiny_llama();
  rope.version = 2;
  rope.f32("llama.rope.scaling.factor", 4).string("llama.rope.scaling.type", "linear");
  rope.tensor("rope_freqs.weight", DType::f32, {2}, kv_test::raw<float>({1, 8}));
  rope.tensor("output.weight", DType::bf16, {8, 8}, Bytes(128));
  rope.i32s("llama.attention.head_count_kv", {1}).u32("llama.attention.key_length", 4);
  result.emplace_back("rope_factors", rope.bytes());

  GgufWriter values;
  for (std::uint32_t type = 0; type <= 12; ++type) {
    const std::string key = "type." + std::to_string(type);
    if (type != 8 && type != 9)
      values.value(key, type,
                   Bytes(std::vector<std::size_t>{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8}[type]));
  }
  values.string("text", "abc").strings("texts", {"", "de"}).floats("floats", {1});
  Bytes nested = GgufWriter::array_header(9, 2);
  for (int i = 0; i < 2; ++i) {
    const Bytes inner = GgufWriter::array_header(0, 0);
    kv_test::append(nested, inner.data(), inner.size());
  }
  values.value("nested", 9, nested);
  result.emplace_back("values", values.bytes());

  GgufWriter formats;
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::q4_0, DType::q4_1,
                            DType::q5_0, DType::q5_1, DType::q8_0, DType::q4_k, DType::q6_k}) {
    const kv::DTypeInfo format = kv::info(dtype);
    formats.tensor(std::string(format.name), dtype,
                   {static_cast<std::uint64_t>(format.block_elements)},
                   Bytes(static_cast<std::size_t>(format.block_bytes), std::byte{0x35}));
  }
  result.emplace_back("formats", formats.bytes());
  return result;
}

const std::filesystem::path kFolder = KV_SOURCE_DIR "/tests/fuzz/seeds/gguf";

}  // namespace

TEST_CASE("gguf seeds: written to their folder", "[.][write]") {
  std::filesystem::create_directories(kFolder);
  for (const auto& [name, bytes] : seeds()) {
    std::ofstream out(kFolder / name, std::ios::binary);
    out.write(reinterpret_cast<const char*>(bytes.data()),
              static_cast<std::streamsize>(bytes.size()));
    REQUIRE(out.good());
  }
}

TEST_CASE("gguf seeds: the files in the folder are the ones that the generator makes", "[gguf]") {
  for (const auto& [name, bytes] : seeds()) {
    INFO(name);
    std::ifstream in(kFolder / name, std::ios::binary);
    REQUIRE(in.is_open());
    const std::string stored{std::istreambuf_iterator<char>(in), {}};
    REQUIRE(stored.size() == bytes.size());
    CHECK(std::equal(stored.begin(), stored.end(), bytes.begin(),
                     [](char c, std::byte b) { return static_cast<std::byte>(c) == b; }));
    // A seed is of use only if the reader takes it.
    CHECK_NOTHROW(kv::GgufFile::from_memory(bytes, name));
  }
}
