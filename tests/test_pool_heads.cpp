// Mean-pooling and repeating KV heads: by hand on small matrices, then whole files.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "kv/model/dequantize.hpp"
#include "kv/model/pool_heads.hpp"
#include "support/gguf_writer.hpp"
#include "support/random_model.hpp"
#include "support/real_models.hpp"

using Catch::Matchers::ContainsSubstring;
using kv::DType, kv::HeadConfig, kv::KvProjection, kv::WeightMatrix;
using kv_test::Bytes, kv_test::raw;

namespace {

// The numbers of a projection [num_rows, num_cols].
std::vector<float> numbers(DType dtype, std::span<const std::byte> bytes) {
  const kv::DTypeInfo format = kv::info(dtype);
  std::vector<float> values(bytes.size() / format.block_bytes * format.block_elements);
  kv::dequantize_blocks(dtype, bytes.data(), values);
  return values;
}
std::vector<float> numbers(const KvProjection& p) { return numbers(p.dtype, p.bytes); }

// A projection of random numbers; `bytes` holds them.
WeightMatrix random_projection(DType dtype, const HeadConfig& heads, int num_cols, Bytes& bytes,
                               std::uint32_t seed = 1) {
  kv_test::RandomWeights random(seed);
  std::vector<float> values(static_cast<std::size_t>(heads.kv_dim() * num_cols));
  for (float& x : values) x = random.next(1.0f);
  WeightMatrix w{dtype, heads.kv_dim(), num_cols, nullptr};
  bytes.resize(static_cast<std::size_t>(w.bytes()));
  kv_test::quantize(dtype, values, bytes.data());
  w.data = bytes.data();
  return w;
}

std::string refusal(const HeadConfig& heads, int num_kv_heads) {
  try {
    kv::check_kv_heads(heads, num_kv_heads);
  } catch (const kv::InputError& error) {
    return error.what();
  }
  return "";
}

std::shared_ptr<const kv::GgufFile> opened(std::span<const std::byte> bytes) {
  return kv::GgufFile::from_memory(bytes, "test.gguf");
}
std::shared_ptr<const kv::GgufFile> opened(const std::string& text) {
  return opened(std::as_bytes(std::span(text)));
}

}  // namespace

TEST_CASE("pooling: the mean of heads is taken element by element, neighbours together",
          "[pool_heads]") {
  // 4 heads of 2 rows, d_model 3.
  const HeadConfig heads{4, 4, 2};
  const Bytes bytes = raw<float>({1,  2, 3,  4, 5, 6,      // head 0
                                  3,  4, 5,  0, 1, 0,      // head 1
                                  -1, 0, 8,  2, 2, 2,      // head 2
                                  -3, 1, -8, 4, 6, 100});  // head 3
  const WeightMatrix w{DType::f32, 8, 3, bytes.data()};
  CHECK(numbers(kv::with_kv_heads(w, heads, 2)) ==
        std::vector<float>{2, 3, 4, 2, 3, 3, -2, 0.5f, 0, 3, 4, 51});
  CHECK(numbers(kv::with_kv_heads(w, heads, 1)) == std::vector<float>{0, 1.75f, 2, 2.5f, 3.5f, 27});
  CHECK(numbers(kv::with_kv_heads(w, heads, 4)) == numbers(DType::f32, bytes));
}

TEST_CASE("repeating: each head stands beside its copies", "[pool_heads]") {
  const HeadConfig heads{8, 2, 2};
  const Bytes bytes = raw<float>({1, 2, 3, 4});  // heads {1, 2} and {3, 4}, d_model 1
  const WeightMatrix w{DType::f32, 4, 1, bytes.data()};
  CHECK(numbers(kv::with_kv_heads(w, heads, 4)) == std::vector<float>{1, 2, 1, 2, 3, 4, 3, 4});
  CHECK(numbers(kv::with_kv_heads(w, heads, 8)) ==
        std::vector<float>{1, 2, 1, 2, 1, 2, 1, 2, 3, 4, 3, 4, 3, 4, 3, 4});
}

TEST_CASE("pooling: repeated heads pool back to the very same bytes", "[pool_heads]") {
  const auto dtype = GENERATE(DType::f32, DType::f16, DType::bf16);
  for (const auto& [num_q, few, many] :
       {std::tuple{8, 1, 8}, {6, 2, 6}, {9, 3, 9}, {28, 4, 28}, {12, 2, 4}}) {
    const HeadConfig heads{num_q, few, 4};
    Bytes bytes;
    const WeightMatrix w = random_projection(dtype, heads, 7, bytes);
    const KvProjection more = kv::with_kv_heads(w, heads, many);
    CHECK(more.dtype == dtype);
    const HeadConfig more_heads{num_q, many, 4};
    const WeightMatrix repeated{dtype, more_heads.kv_dim(), 7, more.bytes.data()};
    const KvProjection back = kv::with_kv_heads(repeated, more_heads, few);
    CHECK(back.dtype == dtype);
    CHECK(back.bytes == bytes);
  }
}

TEST_CASE("pooling: a mean is that of the stored numbers, rounded once", "[pool_heads]") {
  const auto dtype = GENERATE(DType::f32, DType::f16, DType::bf16, DType::q8_0);
  const HeadConfig heads{6, 6, 4};
  Bytes bytes;
  const WeightMatrix w = random_projection(dtype, heads, 32, bytes, 5);
  const std::vector<float> all = numbers(dtype, bytes);
  const KvProjection pooled = kv::with_kv_heads(w, heads, 2);
  CHECK(pooled.dtype == (dtype == DType::q8_0 ? DType::f16 : dtype));
  const std::vector<float> actual = numbers(pooled);
  REQUIRE(actual.size() == 2 * 4 * 32);
  const std::size_t head_size = 4 * 32;
  for (std::size_t g = 0; g < 2; ++g)
    for (std::size_t i = 0; i < head_size; ++i) {
      double sum = 0.0;
      for (std::size_t n = 0; n < 3; ++n) sum += double{all[(3 * g + n) * head_size + i]};
      const auto mean = static_cast<float>(sum / 3);
      float expected = mean;
      if (pooled.dtype == DType::f16) expected = kv::to_float(kv::to_f16(mean));
      if (pooled.dtype == DType::bf16) expected = kv::to_float(kv::to_bf16(mean));
      CHECK(actual[g * head_size + i] == expected);
    }
}

TEST_CASE("repeating: quantised rows stay as they are", "[pool_heads]") {
  const HeadConfig heads{4, 2, 2};
  Bytes bytes;
  const WeightMatrix w = random_projection(DType::q8_0, heads, 64, bytes);
  const KvProjection more = kv::with_kv_heads(w, heads, 4);
  CHECK(more.dtype == DType::q8_0);
  const std::size_t head = bytes.size() / 2;
  REQUIRE(more.bytes.size() == 4 * head);
  for (std::size_t g = 0; g < 4; ++g)
    CHECK(std::memcmp(&more.bytes[g * head], &bytes[g / 2 * head], head) == 0);
}

TEST_CASE("pooling: a mean that the format cannot hold is refused", "[pool_heads]") {
  // Q8_0 holds 127 times a half; the mean of two such numbers is no half.
  const HeadConfig heads{2, 2, 1};
  Bytes bytes(2 * 34, std::byte{127});
  for (const std::size_t block : {std::size_t{0}, std::size_t{34}}) {
    const kv::f16 scale = kv::to_f16(1000.0f);
    std::memcpy(&bytes[block], &scale, 2);
  }
  const WeightMatrix w{DType::q8_0, 2, 32, bytes.data()};
  CHECK_THROWS_AS(kv::with_kv_heads(w, heads, 1), kv::InputError);
  CHECK_NOTHROW(kv::with_kv_heads(w, heads, 2));
}

TEST_CASE("pooling: weights that are no numbers are refused as such", "[pool_heads]") {
  for (const float odd : {INFINITY, NAN}) {
    const Bytes bytes = raw<float>({1.0f, odd});
    const WeightMatrix w{DType::f32, 2, 1, bytes.data()};
    CHECK_THROWS_WITH(kv::with_kv_heads(w, {2, 2, 1}, 1), ContainsSubstring("infinity or NaN"));
  }
}

TEST_CASE("KV heads: a number that does not divide is refused with both numbers", "[pool_heads]") {
  const HeadConfig mha{33, 33, 8}, llama{32, 8, 8};
  for (const auto& [heads, wanted, other] : {std::tuple{mha, 2, 33},
                                             {HeadConfig{3, 3, 8}, 2, 3},
                                             {HeadConfig{7, 7, 8}, 2, 7},
                                             {HeadConfig{4, 4, 8}, 0, 4},
                                             {HeadConfig{2, 2, 8}, 4, 2},
                                             {llama, 3, 8},
                                             {llama, 12, 8},
                                             {llama, 24, 32},
                                             {llama, 64, 32},
                                             {llama, -8, 8},
                                             {HeadConfig{12, 4, 8}, 8, 12}}) {
    INFO(heads.num_q_heads << "/" << heads.num_kv_heads << " to " << wanted);
    CHECK_THAT(refusal(heads, wanted), ContainsSubstring(std::to_string(wanted) + " "));
    CHECK_THAT(refusal(heads, wanted), ContainsSubstring(" " + std::to_string(other) + " "));
  }
  for (const int wanted : {1, 2, 4, 8, 16, 32}) CHECK(refusal(llama, wanted).empty());
}

TEST_CASE("KV heads: what is possible is all that is accepted, most first", "[pool_heads]") {
  CHECK(kv::possible_kv_heads({32, 8, 4}) == std::vector<int>{32, 16, 8, 4, 2, 1});
  CHECK(kv::possible_kv_heads({9, 3, 4}) == std::vector<int>{9, 3, 1});
  CHECK(kv::possible_kv_heads({7, 1, 4}) == std::vector<int>{7, 1});
  CHECK(kv::possible_kv_heads({12, 6, 4}) == std::vector<int>{12, 6, 3, 2, 1});
  CHECK(kv::possible_kv_heads({1, 1, 4}) == std::vector<int>{1});
  for (int q = 1; q <= 24; ++q)
    for (int kv_heads = 1; kv_heads <= q; ++kv_heads) {
      if (q % kv_heads != 0) continue;
      std::vector<int> accepted;
      for (int n = 2 * q; n >= -1; --n)
        if (refusal({q, kv_heads, 4}, n).empty()) accepted.push_back(n);
      CHECK(kv::possible_kv_heads({q, kv_heads, 4}) == accepted);
    }
}

TEST_CASE("KV heads: a file with the number that it has comes out byte for byte", "[pool_heads]") {
  const auto file = kv::GgufFile::open(kv_test::shakespeare_path());
  const std::string same = kv::with_kv_heads(file, 2);
  const auto copy = opened(same);
  const std::string once_more = kv::with_kv_heads(copy, 2);
  CHECK(same == once_more);
  std::ifstream stored(kv_test::shakespeare_path(), std::ios::binary);
  CHECK(same == std::string(std::istreambuf_iterator<char>(stored), {}));
  // There and back.
  CHECK(kv::with_kv_heads(opened(kv::with_kv_heads(file, 8)), 2) == same);
}

TEST_CASE("KV heads: in a converted file only K, V and their count have changed", "[pool_heads]") {
  const int num_kv_heads = GENERATE(1, 4, 8);
  const auto file = kv::GgufFile::open(kv_test::shakespeare_path());
  const auto changed = opened(kv::with_kv_heads(file, num_kv_heads));
  REQUIRE(changed->values().size() == file->values().size());
  for (std::size_t i = 0; i < file->values().size(); ++i) {
    const kv::GgufValue &a = file->values()[i], &b = changed->values()[i];
    INFO(a.key);
    CHECK(a.key == b.key);
    if (a.key != "llama.attention.head_count_kv") CHECK(std::ranges::equal(a.bytes, b.bytes));
  }
  CHECK(changed->integer("llama.attention.head_count_kv") == num_kv_heads);
  REQUIRE(changed->tensors().size() == file->tensors().size());
  for (std::size_t i = 0; i < file->tensors().size(); ++i) {
    const kv::GgufTensor &a = file->tensors()[i], &b = changed->tensors()[i];
    INFO(a.name);
    CHECK(a.name == b.name);
    CHECK(a.dtype == b.dtype);
    const bool is_kv =
        a.name.find("attn_k.") != a.name.npos || a.name.find("attn_v.") != a.name.npos;
    CHECK(b.num_rows() == (is_kv ? a.num_rows() / 2 * num_kv_heads : a.num_rows()));
    if (!is_kv) CHECK(std::ranges::equal(a.bytes, b.bytes));
  }
}

TEST_CASE("KV heads: a converted file and a converted model hold the same weights",
          "[pool_heads]") {
  const int num_kv_heads = GENERATE(1, 2, 4, 8);
  const auto file = kv::GgufFile::open(kv_test::shakespeare_path());
  const kv::Model in_memory = kv::with_kv_heads(kv::load_model(file), num_kv_heads);
  const kv::Model from_file = kv::load_model(opened(kv::with_kv_heads(file, num_kv_heads)));
  CHECK(in_memory.config.heads.num_kv_heads == num_kv_heads);
  CHECK(from_file.config.heads.num_kv_heads == num_kv_heads);
  const auto same = [](const WeightMatrix& a, const WeightMatrix& b) {
    return a.dtype == b.dtype && a.num_rows == b.num_rows && a.num_cols == b.num_cols &&
           std::memcmp(a.data, b.data, static_cast<std::size_t>(a.bytes())) == 0;
  };
  for (std::size_t l = 0; l < from_file.layers.size(); ++l) {
    CHECK(same(in_memory.layers[l].k, from_file.layers[l].k));
    CHECK(same(in_memory.layers[l].v, from_file.layers[l].v));
    CHECK(same(in_memory.layers[l].q, from_file.layers[l].q));
  }
}

TEST_CASE("KV heads: however a file says its number of KV heads, the new one replaces it",
          "[pool_heads]") {
  const std::string key = "llama.attention.head_count_kv";
  kv_test::GgufWriter one = kv_test::tiny_llama();  // 2 query heads, 1 KV head
  kv_test::GgufWriter array = kv_test::tiny_llama();
  array.i32s(key, {1});
  for (const auto* w : {&one, &array}) {
    const auto changed = opened(kv::with_kv_heads(opened(w->bytes()), 2));
    CHECK(changed->integer(key) == 2);
    CHECK(changed->find_tensor("blk.0.attn_k.weight")->num_rows() == 8);
  }
  // Without the key there are as many as query heads.
  kv_test::GgufWriter none = kv_test::tiny_llama();
  none.erase(key);
  for (const char* name : {"blk.0.attn_k.weight", "blk.0.attn_v.weight"}) {
    kv_test::GgufWriter::Tensor& tensor = none.at(name);
    tensor.dims = {8, 8};
    tensor.data.insert(tensor.data.end(), tensor.data.begin(), tensor.data.end());
  }
  const auto pooled = opened(kv::with_kv_heads(opened(none.bytes()), 1));
  CHECK(pooled->integer(key) == 1);
  CHECK(kv::load_model(pooled).config.heads.num_kv_heads == 1);
}

TEST_CASE("KV heads: the alignment of a file is kept", "[pool_heads]") {
  kv_test::GgufWriter w = kv_test::tiny_llama();
  w.u32("general.alignment", 128).alignment = 128;
  const auto file = opened(w.bytes());
  const auto changed = opened(kv::with_kv_heads(file, 2));
  CHECK(changed->integer("general.alignment") == 128);
  CHECK(kv::load_model(changed).config.heads.num_kv_heads == 2);
}

TEST_CASE("KV heads: what is no whole model is refused before anything is written",
          "[pool_heads]") {
  kv_test::GgufWriter w = kv_test::tiny_llama();
  w.erase_tensor("blk.0.attn_k.weight");
  CHECK_THROWS_WITH(kv::with_kv_heads(opened(w.bytes()), 2), ContainsSubstring("attn_k"));
  CHECK_THROWS_WITH(kv::with_kv_heads(opened(kv_test::tiny_llama().bytes()), 4),
                    ContainsSubstring("4 does not divide the model's 2 query heads"));
}
