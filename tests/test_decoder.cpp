// The decoder: against a double-precision decoder, and against itself cut up in other ways.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "kv/agreement.hpp"
#include "kv/cache/contiguous.hpp"
#include "kv/cost/work.hpp"
#include "kv/decoder.hpp"
#include "kv/generate.hpp"
#include "support/random_model.hpp"
#include "support/reference_decoder.hpp"

namespace {

using kv_test::RandomModelShape;

std::vector<kv::TokenId> random_tokens(int count, int vocab_size, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<kv::TokenId> tokens(count);
  for (kv::TokenId& token : tokens)
    token = static_cast<kv::TokenId>(random() % static_cast<unsigned>(vocab_size));
  return tokens;
}

double max_abs(std::span<const float> values) {
  double largest = 0.0;
  for (const float value : values) largest = std::max(largest, std::fabs(double{value}));
  return largest;
}

void require_close(std::span<const float> actual, std::span<const float> expected, double atol) {
  REQUIRE(actual.size() == expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    INFO("logit " << i << ": actual " << actual[i] << ", expected " << expected[i]);
    REQUIRE(std::fabs(double{actual[i]} - expected[i]) <= atol);
  }
}

std::vector<float> row(const kv::RowMajor& logits, std::int64_t r) {
  return {logits.row(r).data(), logits.row(r).data() + logits.cols()};
}

// Odd shapes: group 1, 3, 8; head_dim 32, 64, 80, 128, 256; 1 and 7 layers; the formats.
const std::vector<RandomModelShape> kShapes = {
    {.num_layers = 1, .num_q_heads = 2, .num_kv_heads = 2, .head_dim = 32, .seed = 1},
    {.num_layers = 7, .num_q_heads = 3, .num_kv_heads = 1, .head_dim = 32, .seed = 2},
    {.num_layers = 2,
     .num_q_heads = 6,
     .num_kv_heads = 2,
     .head_dim = 64,
     .d_model = 96,
     .seed = 3},
    {.num_layers = 1,
     .num_q_heads = 8,
     .num_kv_heads = 1,
     .head_dim = 80,
     .d_model = 72,
     .seed = 4},
    {.num_layers = 1,
     .num_q_heads = 3,
     .num_kv_heads = 3,
     .head_dim = 128,
     .d_model = 64,
     .seed = 5},
    {.num_layers = 2,
     .num_q_heads = 2,
     .num_kv_heads = 1,
     .head_dim = 256,
     .d_model = 32,
     .seed = 6},
    {.num_layers = 2,
     .num_q_heads = 3,
     .num_kv_heads = 1,
     .head_dim = 10,
     .d_model = 22,
     .ffn_dim = 17,
     .rope_dim = 6,
     .vocab_size = 37,
     .seed = 7},
    {.num_layers = 2,
     .num_q_heads = 4,
     .num_kv_heads = 2,
     .head_dim = 32,
     .dtype = kv::DType::f16,
     .tied = false,
     .seed = 8},
    {.num_layers = 2,
     .num_q_heads = 4,
     .num_kv_heads = 2,
     .head_dim = 32,
     .dtype = kv::DType::bf16,
     .seed = 9},
    {.num_layers = 2,
     .num_q_heads = 4,
     .num_kv_heads = 2,
     .head_dim = 32,
     .dtype = kv::DType::q8_0,
     .seed = 10},
};

}  // namespace

TEST_CASE("decoder: the logits of every position are those of the double-precision decoder",
          "[decoder][oracle]") {
  const RandomModelShape& shape = kShapes[GENERATE(range(std::size_t{0}, std::size_t{10}))];
  const kv::Math& math = *GENERATE(&kv::plain_math(), &kv::fast_math());
  kv::Model model = kv_test::random_model(shape);
  kv::widen_weights(model);
  const auto tokens = random_tokens(17, model.config.vocab_size, shape.seed);
  kv::ContiguousCache state(model.config, 17);
  const kv::RowMajor actual = kv::forward_all(model, state, tokens, nullptr, math);
  const auto expected = kv_test::reference_forward(model, tokens);
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    const std::vector<float> rounded(expected[t].begin(), expected[t].end());
    INFO(math.name << ": shape with seed " << shape.seed << ", position " << t);
    require_close(row(actual, static_cast<std::int64_t>(t)), rounded,
                  kv::logits_atol(model.config, kv::DType::f32, max_abs(rounded)));
  }
}

TEST_CASE("decoder: RoPE scaling factors reach the logits as they reach the oracle's",
          "[decoder][oracle]") {
  kv::Model model = kv_test::random_model(kShapes[0]);
  const auto tokens = random_tokens(9, model.config.vocab_size, 1);
  kv::ContiguousCache plain_state(model.config, 9);
  const std::vector<float> plain = kv::forward(model, plain_state, tokens);
  for (int i = 0; i < model.config.rope_dim / 2; ++i)
    model.rope_factors.push_back(i < 6 ? 1.0f : 1.0f + static_cast<float>(i));
  kv::ContiguousCache state(model.config, 9);
  const std::vector<float> scaled = kv::forward(model, state, tokens);
  const auto expected = kv_test::reference_forward(model, tokens).back();
  const double atol = kv::logits_atol(model.config, kv::DType::f32, max_abs(scaled));
  require_close(scaled, std::vector<float>(expected.begin(), expected.end()), atol);
  double difference = 0.0;
  for (std::size_t i = 0; i < plain.size(); ++i)
    difference = std::max(difference, std::fabs(double{plain[i]} - scaled[i]));
  CHECK(difference > 100 * atol);
}

TEST_CASE("decoder: chapter 2 equals chapter 1 for every prefill length and chunk", "[chapters]") {
  const RandomModelShape& shape = kShapes[GENERATE(range(std::size_t{0}, std::size_t{10}))];
  const kv::Math& math = *GENERATE(&kv::plain_math(), &kv::fast_math());
  kv::Model model = kv_test::random_model(shape);
  kv::widen_weights(model);
  for (const int prompt_len : {1, 2, 16, 17, 100}) {
    const auto tokens = random_tokens(prompt_len + 3, model.config.vocab_size, shape.seed + 100);
    const std::span<const kv::TokenId> all(tokens);
    for (const int chunk : {1, 4, 5, 100}) {
      kv::ContiguousCache cache(model.config, prompt_len + 3);
      std::vector<float> logits =
          kv::prefill(model, cache, all.first(prompt_len), chunk, nullptr, math);
      for (int step = 0;; ++step) {
        const int seq_len = prompt_len + step;
        REQUIRE(cache.length() == seq_len);
        const auto expected =
            kv::recompute(model, all.first(seq_len), kv::DType::f32, nullptr, math);
        INFO(math.name << ": seed " << shape.seed << ", prompt " << prompt_len << ", chunk "
                       << chunk << ", step " << step);
        require_close(logits, expected,
                      kv::logits_atol(model.config, kv::DType::f32, max_abs(expected)));
        if (step == 3) break;
        logits = kv::decode_step(model, cache, all.first(seq_len + 1), nullptr, math);
      }
    }
  }
}

TEST_CASE("decoder: decoding goes on to the very end of the cache and not further", "[chapters]") {
  const kv::Model model =
      kv_test::random_model({.num_q_heads = 4, .num_kv_heads = 2, .head_dim = 32});
  const auto tokens = random_tokens(33, model.config.vocab_size, 3);
  const std::span<const kv::TokenId> all(tokens);
  kv::ContiguousCache cache(model.config, 32);
  for (int t = 0; t < 32; ++t) {
    const auto logits = kv::forward(model, cache, all.subspan(t, 1));
    const auto expected = kv::recompute(model, all.first(t + 1), kv::DType::f32);
    require_close(logits, expected,
                  kv::logits_atol(model.config, kv::DType::f32, max_abs(expected)));
  }
  CHECK(cache.length() == cache.capacity());
  CHECK_THROWS_AS(kv::forward(model, cache, all.subspan(32, 1)), std::invalid_argument);
  CHECK(cache.length() == 32);
}

TEST_CASE("decoder: positions run on over prefill, chunks and decode", "[decoder]") {
  // The cached K of position p must be the same whatever the chunking: rotated at p.
  const kv::Model model = kv_test::random_model({.num_layers = 1, .head_dim = 32});
  const auto tokens = random_tokens(12, model.config.vocab_size, 5);
  const auto cached_k = [&](int chunk) {
    kv::ContiguousCache cache(model.config, 12);
    kv::prefill(model, cache, tokens, chunk);
    std::vector<float> rows;
    const kv::KvSpan span = cache.spans(0, 1).at(0);
    for (int r = 0; r < 12; ++r)
      for (int d = 0; d < 32; ++d)
        rows.push_back(reinterpret_cast<const float*>(span.k)[r * span.row_stride + d]);
    return rows;
  };
  const auto one_shot = cached_k(12);
  for (const int chunk : {1, 4, 5}) require_close(cached_k(chunk), one_shot, 1e-5);
}

TEST_CASE("decoder: a decode step after a prefill takes the next position, not a jump",
          "[decoder]") {
  // Prompt of 6, then 4 tokens one by one: K must be rotated at 0..5, 6, 7, 8, 9.
  const kv::Model model = kv_test::random_model({.num_layers = 1, .head_dim = 32});
  const auto tokens = random_tokens(10, model.config.vocab_size, 12);
  const std::span<const kv::TokenId> all(tokens);
  kv::ContiguousCache stepwise(model.config, 10), at_once(model.config, 10);
  kv::forward(model, stepwise, all.first(6));
  for (int t = 6; t < 10; ++t) kv::forward(model, stepwise, all.subspan(t, 1));
  kv::forward(model, at_once, all);
  const kv::KvSpan a = stepwise.spans(0, 0)[0], b = at_once.spans(0, 0)[0];
  for (int r = 0; r < 10; ++r)
    for (int d = 0; d < 32; ++d)
      REQUIRE(std::fabs(reinterpret_cast<const float*>(a.k)[r * a.row_stride + d] -
                        reinterpret_cast<const float*>(b.k)[r * b.row_stride + d]) <= 1e-5f);
}

TEST_CASE("decoder: a prefill behind a cached prefix runs the rest alone", "[decoder]") {
  // Prompt of 16, chunk 8, 12 tokens cached: one pass of 4 rows, positions 12..15.
  const kv::Model model = kv_test::random_model({.head_dim = 32});
  const auto tokens = random_tokens(16, model.config.vocab_size, 13);
  const std::span<const kv::TokenId> all(tokens);
  kv::ContiguousCache cache(model.config, 16);
  kv::forward(model, cache, all.first(12));
  kv::Work work;
  const auto logits = kv::prefill(model, cache, all.subspan(cache.length()), 8, &work);
  CHECK(work.rows == 4);
  CHECK(work.kv_bytes_read == cache.bytes_in_use());  // one pass: the cache is read once
  CHECK(cache.length() == 16);
  const auto expected = kv::recompute(model, all, kv::DType::f32);
  require_close(logits, expected, kv::logits_atol(model.config, kv::DType::f32, max_abs(expected)));
  CHECK_THROWS_AS(kv::prefill(model, cache, {}, 8), std::invalid_argument);
}

TEST_CASE("decoder: a prefill into an empty cache is causal", "[decoder]") {
  const kv::Model model = kv_test::random_model({.head_dim = 32});
  auto tokens = random_tokens(4, model.config.vocab_size, 6);
  const auto run = [&](kv::ContiguousCache& cache) {
    return kv::forward_all(model, cache, tokens);
  };
  kv::ContiguousCache first(model.config, 4), second(model.config, 4);
  const kv::RowMajor before = run(first);
  tokens[3] = (tokens[3] + 1) % model.config.vocab_size;
  const kv::RowMajor after = run(second);
  // The last token changed: everything of positions 0..2 is the same to the bit.
  CHECK((before.topRows(3).array() == after.topRows(3).array()).all());
  CHECK_FALSE((before.row(3).array() == after.row(3).array()).all());
  for (int l = 0; l < model.config.num_layers; ++l)
    for (int g = 0; g < model.config.heads.num_kv_heads; ++g) {
      const kv::KvSpan a = first.spans(l, g)[0], b = second.spans(l, g)[0];
      for (int r = 0; r < 3; ++r) {
        const auto* k_a = reinterpret_cast<const float*>(a.k) + r * a.row_stride;
        const auto* k_b = reinterpret_cast<const float*>(b.k) + r * b.row_stride;
        CHECK(std::equal(k_a, k_a + 32, k_b));
      }
    }
}

TEST_CASE("decoder: sequences in one batch do not see each other", "[decoder][batch]") {
  const kv::Model model =
      kv_test::random_model({.num_q_heads = 6, .num_kv_heads = 2, .head_dim = 32});
  // Ragged on purpose, with as many sequences as KV heads.
  const std::vector<int> past = {3, 0, 17}, fresh = {1, 5, 2};
  std::vector<kv::ContiguousCache> states;
  std::vector<std::vector<kv::TokenId>> tokens;
  for (std::size_t b = 0; b < past.size(); ++b) {
    states.emplace_back(model.config, 40);
    tokens.push_back(
        random_tokens(past[b] + fresh[b], model.config.vocab_size, static_cast<unsigned>(20 + b)));
    if (past[b] > 0) kv::forward(model, states[b], std::span(tokens[b]).first(past[b]));
  }
  for (const std::size_t batch_size : {std::size_t{2}, std::size_t{3}}) {
    std::vector<kv::ContiguousCache> copies = states;
    std::vector<kv::BatchItem> batch;
    for (std::size_t b = 0; b < batch_size; ++b)
      batch.push_back({&copies[b], std::span(tokens[b]).subspan(past[b])});
    kv::Work work;
    const kv::RowMajor logits = kv::forward(model, batch, &work);
    REQUIRE(logits.rows() == static_cast<std::int64_t>(batch_size));
    for (std::size_t b = 0; b < batch_size; ++b) {
      const auto solo = kv::recompute(model, tokens[b], kv::DType::f32);
      require_close(row(logits, static_cast<std::int64_t>(b)), solo,
                    kv::logits_atol(model.config, kv::DType::f32, max_abs(solo)));
    }
    CHECK(work.rows == std::accumulate(fresh.begin(), fresh.begin() + batch_size, 0));
  }
}

TEST_CASE("decoder: counted work equals the closed forms", "[decoder][work]") {
  const auto dtype = GENERATE(kv::DType::f32, kv::DType::bf16);
  const kv::Model model =
      kv_test::random_model({.num_layers = 3, .num_q_heads = 6, .num_kv_heads = 2, .head_dim = 32});
  const kv::ModelConfig& c = model.config;
  const int prompt_len = 5, num_new = 7;
  const auto tokens = random_tokens(prompt_len + num_new, c.vocab_size, 8);
  const std::span<const kv::TokenId> all(tokens);
  const std::int64_t per_token = 2 * 3 * 2 * 32 * kv::info(dtype).block_bytes;

  kv::Work recomputed, cached;
  kv::ContiguousCache cache(c, prompt_len + num_new, dtype);
  kv::prefill(model, cache, all.first(prompt_len), 2, &cached);
  for (int n = 0; n < num_new; ++n) {
    kv::recompute(model, all.first(prompt_len + n), dtype, &recomputed);
    if (n == 0) continue;
    const kv::Work before = cached;
    kv::forward(model, cache, all.subspan(prompt_len + n - 1, 1), &cached);
    // A decode step writes one token's K and V and reads the whole cache, its own row included.
    CHECK(cached.kv_bytes_written - before.kv_bytes_written == per_token);
    CHECK(cached.kv_bytes_read - before.kv_bytes_read == (prompt_len + n) * per_token);
  }
  CHECK(recomputed.rows == kv::recompute_rows(prompt_len, num_new));
  CHECK(recomputed.scores == kv::recompute_scores(c, prompt_len, num_new));
  CHECK(recomputed.kv_bytes_written == recomputed.rows * per_token);
  CHECK(cached.rows == kv::cached_rows(prompt_len, num_new));
  CHECK(cached.scores == kv::cached_scores(c, prompt_len, num_new));
  CHECK(cached.kv_bytes_written == cached.rows * per_token);
}

TEST_CASE("closed forms: they equal the sums they stand for", "[work]") {
  kv::ModelConfig c;
  c.num_layers = 3;
  c.heads = {4, 2, 8};
  for (int prompt_len = 1; prompt_len < 8; ++prompt_len)
    for (int num_new = 0; num_new < 9; ++num_new) {
      std::int64_t rows = 0, scores = 0;
      for (int i = 0; i < num_new; ++i) {
        rows += prompt_len + i;
        for (int t = 1; t <= prompt_len + i; ++t) scores += t * 4 * 3;
      }
      CHECK(kv::recompute_rows(prompt_len, num_new) == rows);
      CHECK(kv::recompute_scores(c, prompt_len, num_new) == scores);
    }
}

TEST_CASE("decoder: a cache can be used again after truncate", "[decoder]") {
  const kv::Model model = kv_test::random_model({.head_dim = 32});
  const auto long_prompt = random_tokens(20, model.config.vocab_size, 9);
  const auto prompt = random_tokens(7, model.config.vocab_size, 10);
  kv::ContiguousCache cache(model.config, 20);
  const auto first = kv::forward(model, cache, prompt);
  cache.truncate(0);
  kv::forward(model, cache, long_prompt);
  cache.truncate(0);
  CHECK(kv::forward(model, cache, prompt) == first);
  cache.truncate(6);
  const auto again = kv::forward(model, cache, std::span(prompt).last(1));
  require_close(again, first, kv::logits_atol(model.config, kv::DType::f32, max_abs(first)));
}

TEST_CASE("decoder: misuse is refused before anything changes", "[decoder]") {
  const kv::Model model = kv_test::random_model({.head_dim = 32});
  kv::ContiguousCache cache(model.config, 4);
  const std::vector<kv::TokenId> tokens = {1, 2, 3, 4, 5};
  const std::vector<kv::TokenId> outside = {64}, negative = {-1};
  CHECK_THROWS_AS(kv::forward(model, cache, {}), std::invalid_argument);
  CHECK_THROWS_AS(kv::forward(model, cache, tokens), std::invalid_argument);
  CHECK_THROWS_AS(kv::forward(model, cache, outside), std::invalid_argument);
  CHECK_THROWS_AS(kv::forward(model, cache, negative), std::invalid_argument);
  const std::span<const kv::TokenId> one = std::span(tokens).first(1);
  const std::vector<kv::BatchItem> twice = {{&cache, one}, {&cache, one}};
  CHECK_THROWS_AS(kv::forward(model, twice), std::invalid_argument);
  CHECK_THROWS_AS(kv::forward(model, std::span<const kv::BatchItem>{}), std::invalid_argument);
  CHECK(cache.length() == 0);
  CHECK(cache.spans(0, 0)[0].num_rows == 0);
}

TEST_CASE("decoder: 16-bit caches stay within the bound of their rounding", "[decoder]") {
  const auto dtype = GENERATE(kv::DType::f16, kv::DType::bf16);
  const kv::Model model = kv_test::random_model({.num_layers = 3, .head_dim = 32});
  const auto tokens = random_tokens(30, model.config.vocab_size, 11);
  const std::span<const kv::TokenId> all(tokens);
  kv::ContiguousCache cache(model.config, 30, dtype);
  kv::forward(model, cache, all.first(20));
  for (int t = 20; t < 30; ++t) {
    const auto logits = kv::forward(model, cache, all.subspan(t, 1));
    const auto exact = kv::recompute(model, all.first(t + 1), kv::DType::f32);
    const auto rounded = kv::recompute(model, all.first(t + 1), dtype);
    require_close(logits, rounded, kv::logits_atol(model.config, dtype, max_abs(exact)));
    // Against fp32, every K and V is off by up to half a step of the format.
    const double half_step = dtype == kv::DType::f16 ? 0x1p-11 : 0x1p-8;
    const double fp32_atol = kv::logits_atol(model.config, kv::DType::f32, max_abs(exact));
    require_close(logits, exact, fp32_atol * half_step / 0x1p-23);
    CHECK(logits != exact);  // the format is really used
  }
}

TEST_CASE("forward: attention of the caller's gets all sequences at once, layer by layer",
          "[decoder]") {
  const kv::Model model = kv_test::random_model({.num_layers = 3});
  kv::ContiguousCache a(model.config, 8), b(model.config, 8);
  const auto tokens = random_tokens(5, model.config.vocab_size, 1);
  const std::span<const kv::TokenId> all(tokens);
  const std::vector<kv::BatchItem> batch = {{&a, all.first(3)}, {&b, all.last(2)}};
  std::vector<int> layers;
  kv::Math math = kv::fast_math();
  math.attention = [&](std::span<const kv::AttentionItem> items, const kv::HeadConfig& heads,
                       int layer, float scale) {
    layers.push_back(layer);
    REQUIRE(items.size() == 2);
    CHECK(items[0].state == &a);
    CHECK(items[0].q_len == 3);
    CHECK(items[1].state == &b);
    CHECK(items[1].q_len == 2);
    CHECK(scale == 1.0f / std::sqrt(static_cast<float>(heads.head_dim)));
    // The new rows are there already.
    CHECK(items[0].state->spans(layer, 0).at(0).num_rows == 3);
    kv::fast_math().attention(items, heads, layer, scale);
  };
  const kv::RowMajor logits = kv::forward(model, batch, nullptr, math);
  CHECK(layers == std::vector<int>{0, 1, 2});

  kv::ContiguousCache alone(model.config, 8);
  const auto expected = kv::forward(model, alone, all.first(3));
  require_close(row(logits, 0), expected,
                kv::logits_atol(model.config, kv::DType::f32, max_abs(expected)));
  // What it writes is what the rest of the layer takes.
  kv::ContiguousCache c(model.config, 8), d(model.config, 8);
  kv::Math blind = kv::fast_math();
  blind.attention = [](std::span<const kv::AttentionItem> items, const kv::HeadConfig& heads, int,
                       float) {
    for (const kv::AttentionItem& item : items)
      std::fill_n(item.out, item.q_len * heads.q_dim(), 0.0f);
  };
  CHECK(kv::prefill(model, c, all, 2, nullptr, blind) != kv::prefill(model, d, all, 2));
}
