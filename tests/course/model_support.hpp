// What the tests of exercises about passes share: a small model, a text, and the logits after it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "course/support.hpp"
#include "kv/agreement.hpp"
#include "kv/math.hpp"
#include "support/random_model.hpp"
#include "support/reference_decoder.hpp"

namespace kv_course {

/// A random model whose shape comes from the seed: 2 or 3 layers, heads of 8, 16 or 24.
inline kv::Model random_model(std::mt19937_64& random) {
  kv_test::RandomModelShape shape;
  shape.num_layers = static_cast<int>(pick(random, 2, 3));
  shape.num_kv_heads = static_cast<int>(pick(random, 1, 2));
  shape.num_q_heads = shape.num_kv_heads * static_cast<int>(pick(random, 1, 3));
  shape.head_dim = 8 * static_cast<int>(pick(random, 1, 3));
  shape.seed = static_cast<std::uint32_t>(random());
  return kv_test::random_model(shape);
}

/// A text of `count` tokens of the model, none like its neighbour.
inline std::vector<kv::TokenId> random_tokens(std::mt19937_64& random, const kv::Model& model,
                                              std::int64_t count) {
  std::vector<kv::TokenId> tokens = {0};
  while (static_cast<std::int64_t>(tokens.size()) < count) {
    const std::int64_t step = pick(random, 1, model.config.vocab_size - 1);
    tokens.push_back(static_cast<kv::TokenId>((tokens.back() + step) % model.config.vocab_size));
  }
  return tokens;
}

/// A Math that writes down what it is called for.
struct WatchedMath {
  std::int64_t num_products = 0;         ///< weight matrices that were multiplied
  std::vector<int> layers;               ///< of attention, in the order of the calls
  std::vector<std::int64_t> row_counts;  ///< query rows of each of these calls
  kv::Math math{"watched",
                [this](std::span<const kv::Product> group, const kv::RowMajor& x) {
                  num_products += std::ssize(group);
                  kv::fast_math().linear(group, x);
                },
                [this](std::span<const kv::AttentionItem> items, const kv::HeadConfig& heads,
                       int layer, float scale) {
                  layers.push_back(layer);
                  row_counts.push_back(items[0].q_len);
                  kv::fast_math().attention(items, heads, layer, scale);
                }};

  WatchedMath() = default;
  WatchedMath(const WatchedMath&) = delete;  // math refers to this

  /// Fails unless one pass of the model went through it, and nothing else.
  void expect_one_pass(const kv::ModelConfig& c) const {
    std::vector<int> expected;
    for (int l = 0; l < c.num_layers; ++l) expected.push_back(l);
    CHECK(layers == expected);
    CHECK(num_products == 7 * c.num_layers + 1);  // Q, K, V, O, gate, up, down; the output
  }
};

/// Fails unless `got` [vocab_size] are the logits after the last of `tokens`, which are computed
/// in double precision and without a cache.
inline void expect_logits_after(const kv::Model& model, std::span<const kv::TokenId> tokens,
                                const std::vector<float>& got) {
  const std::vector<double> expected = kv_test::reference_forward(model, tokens).back();
  double largest = 0;
  for (const double logit : expected) largest = std::max(largest, std::fabs(logit));
  expect_close("logits after " + std::to_string(tokens.size()) + " tokens",
               {model.config.vocab_size}, got, expected,
               kv::logits_atol(model.config, kv::DType::f32, largest));
}

}  // namespace kv_course
