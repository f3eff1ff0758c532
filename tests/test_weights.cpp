// From a GGUF file to a model: what a plain llama needs is there, and nothing else is.
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "kv/model/dequantize.hpp"
#include "kv/model/gguf.hpp"
#include "kv/model/weights.hpp"
#include "support/gguf_writer.hpp"

using Catch::Matchers::ContainsSubstring;
using kv::DType;
using kv_test::Bytes;
using kv_test::GgufWriter;
using kv_test::raw;
using kv_test::tiny_llama;

namespace {

kv::Model load(const GgufWriter& writer, std::vector<std::string>* warnings = nullptr) {
  return kv::load_model(kv::GgufFile::from_memory(writer.bytes(), "test.gguf"), warnings);
}

/// The message of the InputError that loading gives; empty when the model is accepted.
std::string refusal(const GgufWriter& writer) {
  try {
    load(writer);
  } catch (const kv::InputError& error) {
    return error.what();
  }
  return "";
}

GgufWriter with_rope_freqs(std::vector<float> factors) {
  GgufWriter w = tiny_llama();
  w.tensor("rope_freqs.weight", DType::f32, {factors.size()}, raw(factors));
  return w;
}

/// Tests that need a real model skip when the shared data is not there.
std::string stories260k() {
  const std::string path = KV_SOURCE_DIR "/../shared/data/stories260K.gguf";
  if (!std::filesystem::exists(path)) SKIP("no shared data: stories260K.gguf");
  return path;
}

}  // namespace

TEST_CASE("weights: the tiny model has the shape that its metadata says", "[weights]") {
  std::vector<std::string> warnings;
  const kv::Model model = load(tiny_llama(), &warnings);
  CHECK(warnings.empty());
  CHECK(model.config.name == "tiny");
  CHECK(model.config.vocab_size == 8);
  CHECK(model.config.context_length == 16);
  CHECK(model.config.d_model == 8);
  CHECK(model.config.num_layers == 1);
  CHECK(model.config.ffn_dim == 8);
  CHECK(model.config.heads.num_q_heads == 2);
  CHECK(model.config.heads.num_kv_heads == 1);
  CHECK(model.config.heads.head_dim == 4);
  CHECK(model.config.rope_dim == 4);
  CHECK(model.config.rope_base == 10000.0f);
  CHECK(model.config.norm_eps == 1e-5f);
  CHECK(model.rope_factors.empty());
  REQUIRE(model.layers.size() == 1);
  CHECK(model.layers[0].k.num_rows == 4);
  CHECK(model.layers[0].k.num_cols == 8);
  CHECK(model.layers[0].attn_norm.size() == 8);
  CHECK(model.layers[0].attn_norm[1] == 1 / 8.0f - 0.25f);
  // 64 embedding + 8 + 64 + 32 + 32 + 64 + 8 + 3 * 64 + 8
  CHECK(model.num_parameters() == 472);
  CHECK(model.weight_bytes() == 4 * 472);
}

TEST_CASE("weights: matrices stay in the file, which the model keeps alive", "[weights]") {
  auto file = kv::GgufFile::from_memory(tiny_llama().bytes(), "test.gguf");
  const std::byte* in_file = file->find_tensor("blk.0.ffn_up.weight")->bytes.data();
  kv::Model model = kv::load_model(std::move(file));
  const kv::Model moved = std::move(model);
  CHECK(moved.layers[0].up.data == in_file);
  std::vector<float> row(8);
  kv::dequantize_row(moved.layers[0].up, 7, row);
  CHECK(row[7] == 63 % 7 / 8.0f - 0.25f);
}

TEST_CASE("weights: without output.weight the output is the embedding, with it that one wins",
          "[weights]") {
  const kv::Model tied = load(tiny_llama());
  CHECK(tied.tied());
  GgufWriter w = tiny_llama();
  w.tensor("output.weight", DType::f32, {8, 8}, raw(std::vector<float>(64, 3.0f)));
  const kv::Model untied = load(w);
  CHECK_FALSE(untied.tied());
  std::vector<float> row(8);
  kv::dequantize_row(untied.output, 0, row);
  CHECK(row[0] == 3.0f);
  CHECK(untied.num_parameters() == tied.num_parameters() + 64);
  CHECK(untied.weight_bytes() == tied.weight_bytes() + 256);
}

TEST_CASE("weights: every other missing tensor is an error that names it", "[weights]") {
  for (const char* name :
       {"token_embd.weight", "output_norm.weight", "blk.0.attn_norm.weight", "blk.0.attn_q.weight",
        "blk.0.attn_k.weight", "blk.0.attn_v.weight", "blk.0.attn_output.weight",
        "blk.0.ffn_norm.weight", "blk.0.ffn_gate.weight", "blk.0.ffn_up.weight",
        "blk.0.ffn_down.weight"}) {
    GgufWriter w = tiny_llama();
    CHECK_THAT(refusal(w.erase_tensor(name)),
               ContainsSubstring("test.gguf: tensor '" + std::string(name) + "': is missing;"));
  }
}

TEST_CASE("weights: a tensor of the wrong shape is an error with both shapes", "[weights]") {
  GgufWriter w = tiny_llama();
  w.tensor("blk.0.attn_k.weight", DType::f32, {8, 8}, Bytes(256));
  CHECK(refusal(w) ==
        "test.gguf: tensor 'blk.0.attn_k.weight': has the shape [8, 8], not [4, 8] as the metadata "
        "says; convert the model again");
  GgufWriter cube = tiny_llama();
  cube.tensor("blk.0.attn_q.weight", DType::f32, {8, 2, 4}, Bytes(256));
  CHECK_THAT(refusal(cube), ContainsSubstring("has the shape [4, 2, 8], not [8, 8]"));
  GgufWriter norm = tiny_llama();
  norm.tensor("output_norm.weight", DType::f32, {4}, Bytes(16));
  CHECK_THAT(refusal(norm), ContainsSubstring("tensor 'output_norm.weight': has the shape [4]"));
}

TEST_CASE("weights: a tensor that the model would not use is refused", "[weights]") {
  const auto with_extra = [](const char* name) {
    GgufWriter w = tiny_llama();
    return refusal(w.tensor(name, DType::f32, {8}, Bytes(32)));
  };
  CHECK_THAT(with_extra("blk.0.attn_q.bias"),
             ContainsSubstring("tensor 'blk.0.attn_q.bias': biases are not supported"));
  CHECK_THAT(with_extra("blk.0.attn_q_norm.weight"), ContainsSubstring("not part of a plain"));
  CHECK_THAT(with_extra("blk.1.attn_norm.weight"), ContainsSubstring("not part of a plain"));
}

TEST_CASE("weights: norms of any format are widened, and must be finite", "[weights]") {
  GgufWriter w = tiny_llama();
  w.tensor("output_norm.weight", DType::f16, {8}, raw(std::vector<std::uint16_t>(8, 0x3c00)));
  CHECK(load(w).output_norm == std::vector<float>(8, 1.0f));
  w.tensor("output_norm.weight", DType::f16, {8}, raw(std::vector<std::uint16_t>(8, 0x7c00)));
  CHECK_THAT(refusal(w), ContainsSubstring("'output_norm.weight': holds infinity or NaN"));
}

TEST_CASE("weights: only dense causal models of architecture llama are accepted", "[weights]") {
  CHECK_THAT(refusal(tiny_llama().string("general.architecture", "mamba")),
             ContainsSubstring("'mamba' is not supported; use a model of architecture 'llama'"));
  CHECK_THAT(refusal(tiny_llama().string("general.architecture", std::string("llama\0", 6))),
             ContainsSubstring("'llama\\x00' is not supported"));
  CHECK_THAT(refusal(tiny_llama().erase("general.architecture")), ContainsSubstring("is missing"));
  CHECK_THAT(refusal(tiny_llama().u32("llama.expert_count", 8)), ContainsSubstring("experts"));
  CHECK_THAT(refusal(tiny_llama().boolean("llama.attention.causal", false)),
             ContainsSubstring("causal"));
}

TEST_CASE("weights: required keys are asked for by name, optional ones have their defaults",
          "[weights]") {
  for (const char* key : {"llama.context_length", "llama.embedding_length", "llama.block_count",
                          "llama.feed_forward_length", "llama.attention.head_count",
                          "llama.attention.layer_norm_rms_epsilon"})
    CHECK_THAT(refusal(tiny_llama().erase(key)),
               ContainsSubstring("test.gguf: key '" + std::string(key) + "': is missing;"));

  CHECK(load(tiny_llama().erase("llama.rope.dimension_count")).config.rope_dim == 4);
  CHECK_THAT(refusal(tiny_llama().erase("llama.attention.head_count_kv")),  // then it is 2
             ContainsSubstring("'blk.0.attn_k.weight': has the shape [4, 8], not [8, 8]"));
  CHECK(load(tiny_llama().erase("general.name")).config.name == "test");
}

TEST_CASE("weights: the head size is the key length, not d_model / heads, where it is given",
          "[weights]") {
  GgufWriter w = tiny_llama();
  w.u32("llama.attention.key_length", 6).u32("llama.attention.value_length", 6);
  w.tensor("blk.0.attn_q.weight", DType::f32, {8, 12}, Bytes(384));
  w.tensor("blk.0.attn_k.weight", DType::f32, {8, 6}, Bytes(192));
  w.tensor("blk.0.attn_v.weight", DType::f32, {8, 6}, Bytes(192));
  w.tensor("blk.0.attn_output.weight", DType::f32, {12, 8}, Bytes(384));
  CHECK(load(w).config.heads.head_dim == 6);
  CHECK(load(w).config.rope_dim == 4);
  CHECK_THAT(refusal(w.u32("llama.attention.value_length", 4)),
             ContainsSubstring("4 differs from the key length 6"));
}

TEST_CASE("weights: head counts that do not divide are named with the file", "[weights]") {
  CHECK(refusal(tiny_llama().u32("llama.attention.head_count_kv", 3)) ==
        "test.gguf: key 'llama.attention.head_count_kv': 3 does not divide the 2 of "
        "llama.attention.head_count; convert the model again");
  GgufWriter w = tiny_llama();
  w.u32("llama.attention.head_count", 3).u32("llama.attention.head_count_kv", 1);
  CHECK_THAT(refusal(w), ContainsSubstring("3 does not divide the 8 of llama.embedding_length"));
  CHECK_THAT(refusal(tiny_llama().i32("llama.attention.head_count", -2)),
             ContainsSubstring("-2 is not between 1 and"));
  CHECK_THAT(refusal(tiny_llama().u32("llama.attention.head_count_kv", 0)),
             ContainsSubstring("0 does not divide the 2 of llama.attention.head_count"));
}

TEST_CASE("weights: one number for each layer is accepted when they are equal", "[weights]") {
  const std::string key = "llama.attention.head_count_kv";
  CHECK(load(tiny_llama().i32s(key, {1, 1, 1})).config.heads.num_kv_heads == 1);
  CHECK_THAT(refusal(tiny_llama().i32s(key, {1, 1, 2})),
             ContainsSubstring("differs between layers 0 and 2"));
  CHECK_THAT(refusal(tiny_llama().i32s(key, {})), ContainsSubstring("is an empty array"));
  CHECK_THAT(refusal(tiny_llama().floats(key, {1})), ContainsSubstring("not an array of integers"));
}

TEST_CASE("weights: sizes that make no sense are refused before anything is allocated",
          "[weights]") {
  for (const char* key :
       {"llama.context_length", "llama.embedding_length", "llama.block_count",
        "llama.feed_forward_length", "llama.attention.head_count", "llama.attention.head_count_kv",
        "llama.rope.dimension_count", "llama.attention.key_length", "llama.attention.value_length"})
    for (const std::uint64_t value : {0ull, 1ull << 31, 1ull << 32, 1ull << 40, ~0ull}) {
      INFO(key << " = " << value);
      CHECK_THAT(refusal(tiny_llama().u64(key, value)),
                 ContainsSubstring("test.gguf: key '" + std::string(key) + "': "));
    }
  CHECK_THAT(refusal(tiny_llama().u32("llama.block_count", 2)),
             ContainsSubstring("2 layers of 9 tensors each, but the file has 11"));
  CHECK_THAT(refusal(tiny_llama().u32("llama.rope.dimension_count", 3)), ContainsSubstring("odd"));
  GgufWriter wide = tiny_llama();
  wide.u32("llama.attention.head_count", 1u << 20).u32("llama.attention.key_length", 1u << 20);
  CHECK_THAT(refusal(wide), ContainsSubstring("1048576 heads of 1048576 are too wide"));
}

TEST_CASE("weights: numbers that make no sense are refused", "[weights]") {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float bad : {-1.0f, infinity, -infinity, std::nanf("")})
    for (const char* key : {"llama.attention.layer_norm_rms_epsilon", "llama.rope.freq_base"}) {
      INFO(key << " = " << bad);
      CHECK_THAT(refusal(tiny_llama().f32(key, bad)), ContainsSubstring(key));
    }
  CHECK_THAT(refusal(tiny_llama().f32("llama.rope.freq_base", 0)), ContainsSubstring("freq_base"));
  CHECK(refusal(tiny_llama().f32("llama.attention.layer_norm_rms_epsilon", 0)).empty());
}

TEST_CASE("weights: a missing RoPE base is 10000, with a warning", "[weights]") {
  std::vector<std::string> warnings;
  CHECK(load(tiny_llama().erase("llama.rope.freq_base"), &warnings).config.rope_base == 10000.0f);
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0] == "test.gguf: key 'llama.rope.freq_base' is missing; 10000 is assumed");
  CHECK(load(tiny_llama().f32("llama.rope.freq_base", 500000.0f)).config.rope_base == 500000.0f);
}

TEST_CASE("weights: RoPE factors of the file are kept, one for each pair", "[weights]") {
  CHECK(load(with_rope_freqs({1.0f, 8.0f})).rope_factors == std::vector<float>{1.0f, 8.0f});
  CHECK_THAT(refusal(with_rope_freqs({1.0f})), ContainsSubstring("tensor 'rope_freqs.weight'"));
  for (const float bad : {0.0f, -1.0f, std::nanf(""), std::numeric_limits<float>::infinity()})
    CHECK_THAT(refusal(with_rope_freqs({1.0f, bad})),
               ContainsSubstring("tensor 'rope_freqs.weight': holds"));
}

TEST_CASE("weights: linear RoPE scaling divides every frequency, other kinds are refused",
          "[weights]") {
  const std::string type = "llama.rope.scaling.type";
  const std::string factor = "llama.rope.scaling.factor";
  const std::vector<float> fours = {4.0f, 4.0f};
  CHECK(load(tiny_llama().string(type, "none").f32(factor, 4)).rope_factors.empty());
  CHECK(load(tiny_llama().string(type, "linear").f32(factor, 4)).rope_factors == fours);
  CHECK(load(tiny_llama().f32(factor, 4)).rope_factors == fours);
  CHECK(load(tiny_llama().f32("llama.rope.scale_linear", 4)).rope_factors == fours);
  CHECK(load(tiny_llama().f32(factor, 1)).rope_factors.empty());
  CHECK(load(with_rope_freqs({1.0f, 8.0f}).f32(factor, 4)).rope_factors ==
        std::vector<float>{4.0f, 32.0f});
  CHECK_THAT(refusal(tiny_llama().string(type, "linear")), ContainsSubstring("is missing"));
  CHECK_THAT(refusal(tiny_llama().string(type, "yarn")),
             ContainsSubstring("RoPE scaling 'yarn' is not supported"));
  CHECK_THAT(refusal(tiny_llama().f32(factor, 0)), ContainsSubstring(factor));
  CHECK_THAT(refusal(tiny_llama().f32("llama.rope.scaling.attn_factor", 2)),
             ContainsSubstring("attn_factor"));
}

TEST_CASE("weights: a vocabulary size that differs from the embedding gives a warning",
          "[weights]") {
  std::vector<std::string> warnings;
  CHECK(load(tiny_llama().u32("llama.vocab_size", 7), &warnings).config.vocab_size == 8);
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings[0], ContainsSubstring("says 7; the 8 rows of token_embd.weight are used"));
}

TEST_CASE("weights: a model opened from a path stays whole when the file's name is removed",
          "[weights]") {
  const auto path = std::filesystem::temp_directory_path() /
                    ("kv_weights_" + std::to_string(::getpid()) + ".gguf");
  const Bytes bytes = tiny_llama().bytes();
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  const kv::Model model = kv::load_model(kv::GgufFile::open(path.string()));
  std::filesystem::remove(path);
  std::vector<float> row(8);
  kv::dequantize_row(model.layers[0].down, 7, row);
  CHECK(row[7] == 63 % 7 / 8.0f - 0.25f);
}

TEST_CASE("weights: a real file loads, and its counts are those of its tensors",
          "[weights][shared]") {
  const auto file = kv::GgufFile::open(stories260k());
  std::vector<std::string> warnings;
  const kv::Model model = kv::load_model(file, &warnings);
  CHECK(warnings.empty());
  CHECK(model.config.name == "stories260K");
  CHECK(model.config.num_layers == 5);
  CHECK(model.config.heads.num_q_heads == 8);
  CHECK(model.config.heads.num_kv_heads == 4);
  CHECK(model.config.heads.head_dim == 8);
  CHECK(model.config.ffn_dim == 172);
  CHECK(model.config.vocab_size == 512);
  CHECK(model.tied());
  std::int64_t num_bytes = 0, num_elements = 0;
  for (const kv::GgufTensor& tensor : file->tensors()) {
    num_bytes += static_cast<std::int64_t>(tensor.bytes.size());
    num_elements += tensor.row_length() * tensor.num_rows();
  }
  CHECK(model.num_parameters() == num_elements);
  CHECK(model.weight_bytes() == num_bytes);  // all F32
  CHECK(num_elements == 260032);
  CHECK(file->strings("tokenizer.ggml.tokens")->size() == 512);
}
