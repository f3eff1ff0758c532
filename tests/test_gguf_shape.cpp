// The calculator's view of GGUF files of any architecture.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "kv/cost/gguf_shape.hpp"
#include "support/gguf_writer.hpp"

namespace {

using Catch::Matchers::ContainsSubstring;
using kv_test::GgufWriter;

kv::GgufShape shape_of(const GgufWriter& writer) {
  return kv::gguf_shape(*kv::GgufFile::from_memory(writer.bytes(), "test.gguf"));
}

// Four layers, 8 query heads on 2 KV heads of 16 in a model of width 64.
GgufWriter model(const std::string& architecture) {
  GgufWriter w;
  w.string("general.architecture", architecture);
  w.u32(architecture + ".block_count", 4).u32(architecture + ".embedding_length", 64);
  w.u32(architecture + ".attention.head_count", 8);
  w.u32(architecture + ".attention.head_count_kv", 2);
  w.u32(architecture + ".attention.key_length", 16);
  w.u32(architecture + ".attention.value_length", 16);
  w.tensor("token_embd.weight", kv::DType::f32, {64, 2}, kv_test::Bytes(64 * 2 * 4));
  return w;
}

}  // namespace

TEST_CASE("GGUF shape: heads, widths and weights are read from any architecture", "[cost]") {
  const kv::GgufShape shape = shape_of(model("qwen3"));
  CHECK(shape.model.kv.num_layers == 4);
  CHECK(shape.model.num_q_heads == 8);
  CHECK(shape.model.kv.num_kv_heads == 2);
  CHECK(shape.model.kv.head_dim == 16);  // not 64 / 8
  CHECK(shape.model.params == 128);
  CHECK(shape.model.lookup_params == 0);  // tied
  CHECK(shape.weight_bytes == 512);
}

TEST_CASE("GGUF shape: keys that files leave out have the format's defaults", "[cost]") {
  GgufWriter w = model("gpt2");
  w.erase("gpt2.attention.head_count_kv").erase("gpt2.attention.key_length");
  w.erase("gpt2.attention.value_length");
  CHECK(shape_of(w).model.kv.num_kv_heads == 8);
  CHECK(shape_of(w).model.kv.head_dim == 8);
  // An output of its own makes the embedding a mere table; its name is no condition.
  w.tensor("output.weight", kv::DType::f16, {64, 2}, kv_test::Bytes(64 * 2 * 2));
  CHECK(shape_of(w).model.lookup_params == 128);
  CHECK(shape_of(w).model.active_params == 128);
  CHECK(shape_of(w).weight_bytes == 512 + 256);
}

TEST_CASE("GGUF shape: sliding layers and latents are recognised", "[cost]") {
  GgufWriter oss = model("gpt-oss");
  oss.u32("gpt-oss.attention.sliding_window", 128);
  CHECK(shape_of(oss).model.kv.windows == std::vector<int>{128, 0, 128, 0});
  GgufWriter other = model("phi3");
  other.u32("phi3.attention.sliding_window", 128);
  CHECK(shape_of(other).model.kv.windows.empty());
  CHECK_THAT(shape_of(other).model.note, ContainsSubstring("128"));

  GgufWriter mla = model("deepseek2");
  mla.u32("deepseek2.attention.kv_lora_rank", 32).u32("deepseek2.rope.dimension_count", 8);
  mla.u32("deepseek2.attention.key_length", 24);  // K and V differ in width, and that is fine
  const kv::KvShape kv = shape_of(mla).model.kv;
  CHECK(kv::kv_bytes_per_token(kv, kv::kv_format("bf16")).total() == 4 * (32 + 8) * 2);
}

TEST_CASE("GGUF shape: a mixture of experts has fewer active parameters", "[cost]") {
  GgufWriter w = model("mixtral");
  w.u32("mixtral.expert_count", 8).u32("mixtral.expert_used_count", 2);
  w.tensor("blk.0.ffn_up_exps.weight", kv::DType::f32, {64, 2, 8}, kv_test::Bytes(64 * 16 * 4));
  const kv::PublishedModel m = shape_of(w).model;
  CHECK(m.params == 128 + 1024);
  CHECK(m.active_params == 128 + 256);
  CHECK(m.params_read(1) == 128 + 256);
}

TEST_CASE("GGUF shape: what cannot be costed is refused, with its key", "[cost]") {
  const auto refused = [](const GgufWriter& w, const char* named) {
    CHECK_THROWS_WITH(shape_of(w), ContainsSubstring("test.gguf") && ContainsSubstring(named));
  };
  refused(model("a").erase("general.architecture"), "general.architecture");
  refused(model("a").erase("a.block_count"), "a.block_count");
  refused(model("a").u32("a.block_count", 0), "a.block_count");
  refused(model("a").u32("a.block_count", 0xffffffffu), "a.block_count");
  refused(model("a").i32("a.block_count", 2'000'000'000), "a.block_count");
  refused(model("a").string("a.block_count", "four"), "a.block_count");
  refused(model("a").u32("a.attention.head_count", 0), "a.attention.head_count");
  refused(model("a").u32("a.attention.head_count_kv", 3), "a.attention.head_count_kv");
  refused(model("a").u32("a.attention.head_count_kv", 0), "a.attention.head_count_kv");
  refused(model("a").u32("a.attention.value_length", 8), "a.attention.value_length");
  refused(model("a").i32("a.attention.key_length", -16), "a.attention.key_length");
  refused(model("a").erase("a.attention.key_length").u32("a.embedding_length", 4),
          "a.embedding_length");
  refused(model("a").erase_tensor("token_embd.weight"), "tensors");
  // One number for each layer is fine while they agree.
  CHECK(
      shape_of(model("a").i32s("a.attention.head_count_kv", {2, 2, 2, 2})).model.kv.num_kv_heads ==
      2);
  refused(model("a").i32s("a.attention.head_count_kv", {2, 2, 0, 2}), "a.attention.head_count_kv");
  refused(model("a").i32s("a.attention.head_count_kv", {}), "a.attention.head_count_kv");
}
