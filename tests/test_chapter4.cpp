// Chapter 4: sharing KV heads is exact where it should be, and refused where it cannot be.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <random>
#include <vector>

#include "kv/agreement.hpp"
#include "kv/cache/contiguous.hpp"
#include "kv/cost/shared_heads.hpp"
#include "kv/generate.hpp"
#include "kv/model/pool_heads.hpp"
#include "support/attention_check.hpp"
#include "support/gguf_writer.hpp"
#include "support/random_model.hpp"
#include "support/real_models.hpp"
#include "support/span_state.hpp"

using Catch::Matchers::ContainsSubstring;
using kv::DType, kv::HeadConfig;

namespace {

std::vector<kv::TokenId> random_tokens(int count, int vocab_size, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<kv::TokenId> tokens(static_cast<std::size_t>(count));
  for (kv::TokenId& token : tokens)
    token = static_cast<kv::TokenId>(random() % static_cast<unsigned>(vocab_size));
  return tokens;
}

// Logits after a prefill in chunks and after each decode step behind it.
kv::RowMajor logits_of(const kv::Model& model, std::span<const kv::TokenId> tokens,
                       std::size_t prompt_len, DType kv_dtype) {
  kv::ContiguousCache cache(model.config, static_cast<std::int64_t>(tokens.size()), kv_dtype);
  kv::RowMajor rows(tokens.size() - prompt_len + 1, model.config.vocab_size);
  std::vector<float> logits = kv::prefill(model, cache, tokens.first(prompt_len), 5);
  for (std::int64_t r = 0;; ++r) {
    rows.row(r) = Eigen::Map<const Eigen::RowVectorXf>(logits.data(), rows.cols());
    if (cache.length() == static_cast<std::int64_t>(tokens.size())) return rows;
    logits = kv::forward(model, cache, tokens.subspan(static_cast<std::size_t>(cache.length()), 1));
  }
}

void expect_equal_logits(const kv::Model& a, const kv::Model& b, DType kv_dtype) {
  const auto tokens = random_tokens(30, a.config.vocab_size, 3);
  const kv::RowMajor expected = logits_of(a, tokens, 23, kv_dtype);
  const kv::RowMajor actual = logits_of(b, tokens, 23, kv_dtype);
  REQUIRE(actual.allFinite());
  CHECK((actual - expected).cwiseAbs().maxCoeff() <=
        kv::logits_atol(a.config, kv_dtype, expected.cwiseAbs().maxCoeff()));
}

// The mean of a head's K and V rows over the query heads of its group, as GQA takes them.
kv_test::RandomModelShape shape_of(int group, int num_kv_heads, DType dtype) {
  kv_test::RandomModelShape shape;
  shape.num_q_heads = group * num_kv_heads;
  shape.num_kv_heads = num_kv_heads;
  shape.head_dim = 32;
  shape.d_model = 64;
  shape.ffn_dim = 96;
  shape.dtype = dtype;
  shape.seed = static_cast<std::uint32_t>(group);
  return shape;
}

}  // namespace

TEST_CASE("chapter 4: GQA equals MHA with each KV head repeated for its group", "[chapter4]") {
  const int group = GENERATE(2, 3, 4, 8);
  const auto weights = GENERATE(DType::f32, DType::f16, DType::q8_0);
  const auto cache = GENERATE(DType::f32, DType::bf16);
  const kv::Model gqa = kv_test::random_model(shape_of(group, 2, weights));
  const kv::Model mha = kv::with_kv_heads(gqa, gqa.config.heads.num_q_heads);
  REQUIRE(mha.config.heads.group_size() == 1);
  expect_equal_logits(gqa, mha, cache);
}

TEST_CASE("chapter 4: MQA equals GQA and MHA with copies of its one head", "[chapter4]") {
  const kv::Model mqa = kv_test::random_model(shape_of(12, 1, DType::f32));
  for (const int num_kv_heads : {2, 3, 4, 6, 12})
    expect_equal_logits(mqa, kv::with_kv_heads(mqa, num_kv_heads), DType::f32);
}

TEST_CASE("chapter 4: with one KV head, attention is what MQA says: every head reads it",
          "[chapter4]") {
  const kv::Attention& attend = GENERATE(&kv::plain_math(), &kv::fast_math())->attention;
  // out[h] = softmax(scale * q[h] K^T) V, written without a KV head index at all.
  const int num_heads = GENERATE(1, 2, 7, 8);
  const HeadConfig heads{num_heads, 1, 16};
  std::mt19937 random(2);
  const int kv_len = 70;
  const double scale = 0.25;
  const kv_test::SpanState state(heads, kv_test::normals(kv_len * 16, random),
                                 kv_test::normals(kv_len * 16, random), {{kv_len}});
  const std::vector<float> q = kv_test::normals(num_heads * 16, random);
  std::vector<float> out(q.size());
  const kv::AttentionItem item{q.data(), num_heads * 16, 1, &state, out.data(), nullptr};
  attend({&item, 1}, heads, 0, static_cast<float>(scale));

  std::vector<double> expected(out.size(), 0.0);
  double score_mass = 0.0, max_abs_value = 0.0;
  for (const float x : state.v) max_abs_value = std::max(max_abs_value, std::fabs(double{x}));
  for (int h = 0; h < num_heads; ++h) {
    std::vector<double> weights;
    double sum = 0.0;
    for (int j = 0; j < kv_len; ++j) {
      double score = 0.0, mass = 0.0;
      for (int d = 0; d < 16; ++d) {
        const double product = double{q[h * 16 + d]} * double{state.k[j * 16 + d]};
        score += scale * product;
        mass += scale * std::fabs(product);
      }
      score_mass = std::max(score_mass, mass);
      weights.push_back(std::exp(score));
      sum += weights.back();
    }
    for (int j = 0; j < kv_len; ++j)
      for (int d = 0; d < 16; ++d)
        expected[h * 16 + d] += weights[j] / sum * double{state.v[j * 16 + d]};
  }
  kv_test::require_close(out, expected, kv_test::attention_atol(score_mass, max_abs_value));
}

TEST_CASE("chapter 4: every query head reads its own group's KV head, and every KV head is read",
          "[chapter4]") {
  const kv::Attention& attend = GENERATE(&kv::plain_math(), &kv::fast_math())->attention;
  // V of KV head g is g + 1 everywhere: what a query head puts out names the head that it read.
  for (const auto& [num_q, num_kv] :
       {std::pair{4, 2}, {12, 12}, {32, 8}, {28, 4}, {6, 1}, {9, 3}, {64, 8}}) {
    const HeadConfig heads{num_q, num_kv, 8};
    for (const int q_len : {1, 2, 40}) {
      const int kv_len = q_len + 3;
      std::mt19937 random(4);
      std::vector<float> v;
      for (int j = 0; j < kv_len; ++j)
        for (int i = 0; i < heads.kv_dim(); ++i) v.push_back(static_cast<float>(i / 8 + 1));
      const kv_test::SpanState state(heads, kv_test::normals(kv_len * heads.kv_dim(), random), v,
                                     {{kv_len}});
      const std::vector<float> q = kv_test::normals(q_len * heads.q_dim(), random);
      std::vector<float> out(q.size());
      const kv::AttentionItem item{q.data(), heads.q_dim(), q_len, &state, out.data(), nullptr};
      attend({&item, 1}, heads, 0, 0.3f);
      for (std::size_t i = 0; i < out.size(); ++i) {
        const int h = static_cast<int>(i / 8) % num_q;
        REQUIRE(std::fabs(out[i] - static_cast<float>(h / (num_q / num_kv) + 1)) < 1e-4f);
      }
    }
  }
}

TEST_CASE("chapter 4: two sequences over two KV heads each equal their solo run", "[chapter4]") {
  const kv::Attention& attend = GENERATE(&kv::plain_math(), &kv::fast_math())->attention;
  // As many sequences as KV heads: an axis that is mixed up would go unnoticed elsewhere.
  const HeadConfig heads{4, 2, 16};
  std::mt19937 random(6);
  const int lengths[] = {3, 5};
  std::vector<kv_test::SpanState> states;
  std::vector<std::vector<float>> q, together(2), alone(2);
  for (const int length : lengths) {
    auto k = kv_test::normals(length * heads.kv_dim(), random);
    auto v = kv_test::normals(length * heads.kv_dim(), random);
    states.emplace_back(heads, std::move(k), std::move(v),
                        std::vector<kv_test::SpanState::Cut>{{length}});
    q.push_back(kv_test::normals(heads.q_dim(), random));
  }
  std::vector<kv::AttentionItem> items;
  for (std::size_t b = 0; b < 2; ++b) {
    together[b].resize(heads.q_dim());
    alone[b].resize(heads.q_dim());
    items.push_back({q[b].data(), heads.q_dim(), 1, &states[b], together[b].data(), nullptr});
  }
  attend(items, heads, 0, 0.25f);
  for (std::size_t b = 0; b < 2; ++b) {
    items[b].out = alone[b].data();
    attend({&items[b], 1}, heads, 0, 0.25f);
    for (std::size_t i = 0; i < alone[b].size(); ++i)
      CHECK(std::fabs(together[b][i] - alone[b][i]) <= 1e-6f);
  }
}

TEST_CASE("chapter 4: head counts that do not divide are refused at load, with both numbers",
          "[chapter4]") {
  for (const auto& [num_q, num_kv] : {std::pair{33, 2}, {3, 2}, {7, 2}, {2, 4}, {32, 12}}) {
    kv_test::GgufWriter w = kv_test::tiny_llama();
    w.u32("llama.attention.head_count", static_cast<std::uint32_t>(num_q));
    w.u32("llama.attention.head_count_kv", static_cast<std::uint32_t>(num_kv));
    const auto file = kv::GgufFile::from_memory(w.bytes(), "test.gguf");
    const std::string both = ": " + std::to_string(num_kv) + " does not divide the " +
                             std::to_string(num_q) + " of llama.attention.head_count";
    CHECK_THROWS_WITH(kv::load_model(file), ContainsSubstring(both));
    CHECK_THROWS_AS(kv::load_model(file), kv::InputError);
    // The same numbers in a shape that was made by hand.
    CHECK_THROWS_WITH((HeadConfig{num_q, num_kv, 8}.validate()),
                      ContainsSubstring("(" + std::to_string(num_q) + ")") &&
                          ContainsSubstring("(" + std::to_string(num_kv) + ")"));
  }
  kv_test::GgufWriter none = kv_test::tiny_llama();
  none.u32("llama.attention.head_count", 4).u32("llama.attention.head_count_kv", 0);
  const auto file = kv::GgufFile::from_memory(none.bytes(), "test.gguf");
  CHECK_THROWS_WITH(kv::load_model(file), ContainsSubstring("0 does not divide the 4"));
  CHECK_THROWS_WITH((HeadConfig{4, 0, 8}.validate()),
                    ContainsSubstring("(4)") && ContainsSubstring("(0)"));
}

TEST_CASE("chapter 4: a model with other KV heads reads the bytes that its shape says",
          "[chapter4][work]") {
  const auto dtype = GENERATE(DType::f32, DType::f16);
  kv_test::RandomModelShape shape = shape_of(4, 2, DType::f32);
  shape.num_layers = 3;
  const kv::Model model = kv_test::random_model(shape);
  const auto tokens = random_tokens(19, model.config.vocab_size, 1);
  const auto runs = kv::run_with_kv_heads(model, tokens, dtype);
  std::vector<int> counts;
  for (const kv::HeadsRun& run : runs) {
    counts.push_back(run.num_kv_heads);
    const std::int64_t element_bytes = dtype == DType::f32 ? 4 : 2;
    CHECK(run.kv_bytes_per_token == 2 * 3 * run.num_kv_heads * 32 * element_bytes);
    CHECK(run.bytes_predicted == 19 * run.kv_bytes_per_token);
    CHECK(run.bytes_read == run.bytes_predicted);
    // Repeated heads are the same model; pooled ones are another, and far from it.
    if (run.num_kv_heads >= 2)
      CHECK(run.logit_difference <= run.bound);
    else
      CHECK(run.logit_difference > 10 * run.bound);
  }
  CHECK(counts == std::vector<int>{8, 4, 2, 1});
}

TEST_CASE("chapter 4: trained models with repeated heads keep their logits", "[chapter4][model]") {
  const std::string path = GENERATE(kv_test::shakespeare_path(), kv_test::stories_path());
  const auto loaded = kv_test::load_or_skip(path);
  const auto tokens = loaded.tokenizer.encode("Once upon a time there was");
  for (const kv::HeadsRun& run : kv::run_with_kv_heads(loaded.model, tokens, DType::f32))
    if (run.num_kv_heads >= loaded.model.config.heads.num_kv_heads)
      CHECK(run.logit_difference <= run.bound);
}
