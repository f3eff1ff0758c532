// The same model with two ways to keep K and V and to attend, fed the same tokens: a chapter beside
// the one before it.
#pragma once

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "attention/device_attention.hpp"
#include "kv/agreement.hpp"
#include "kv/cache/contiguous.hpp"
#include "kv/generate.hpp"

namespace kv_test {

using Tokens = std::span<const kv::TokenId>;

/// Tokens drawn from [0, vocab_size).
inline std::vector<kv::TokenId> random_tokens(int count, int vocab_size, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<kv::TokenId> tokens(count);
  for (kv::TokenId& token : tokens)
    token = static_cast<kv::TokenId>(random() % static_cast<unsigned>(vocab_size));
  return tokens;
}

/// Largest |value|; 0 for none.
inline double max_abs(std::span<const float> values) {
  double largest = 0.0;
  for (const float value : values) largest = std::max(largest, std::fabs(double{value}));
  return largest;
}

/// The fast path, with attention on a device. \param attention must outlive it
inline kv::Math with_attention(kv::DeviceAttention& attention) {
  return {"device", kv::fast_math().linear, std::ref(attention)};
}

/// One way: a sequence, and the math that reads it.
struct Side {
  std::unique_ptr<kv::SequenceState> state;
  kv::Math math;
};

/// Both ways.
class Pair {
 public:
  /// \param product_dtype as for logits_atol()
  Pair(const kv::Model& model, kv::DType dtype, kv::DType product_dtype, Side expected, Side actual)
      : model_(model),
        dtype_(dtype),
        product_dtype_(product_dtype),
        expected_(std::move(expected)),
        actual_(std::move(actual)) {}

  /// Chapter 2 and chapter 3: a cache on the CPU and one on a device.
  Pair(const kv::Model& model, kv::AttentionSteps steps, kv::DType dtype, std::int64_t capacity,
       kv::Backend backend = kv::Backend::emulated)
      : Pair(
            model, dtype, steps.prefill == kv::AttentionStep::tensor_core ? dtype : kv::DType::f32,
            {std::make_unique<kv::ContiguousCache>(model.config, capacity, dtype), kv::fast_math()},
            on_device(model, steps, dtype, capacity, backend)) {}

  static Side on_device(const kv::Model& model, kv::AttentionSteps steps, kv::DType dtype,
                        std::int64_t capacity, kv::Backend backend) {
    kv::Device& device = kv::device(backend);
    const auto attention =
        std::make_shared<kv::DeviceAttention>(device, model.config.heads, dtype, steps);
    return {std::make_unique<kv::DeviceCache>(device, model.config, capacity, dtype),
            {"device", kv::fast_math().linear,
             [attention](std::span<const kv::AttentionItem> items, const kv::HeadConfig& heads,
                         int layer, float scale) { (*attention)(items, heads, layer, scale); }}};
  }

  /// Runs the tokens through both; every logit within the bound, and where the best is further
  /// ahead than both could err, the same is the best. \return whether all rows were decided so
  bool feed(Tokens tokens) {
    const kv::RowMajor expected =
        kv::forward_all(model_, *expected_.state, tokens, nullptr, expected_.math);
    const kv::RowMajor actual =
        kv::forward_all(model_, *actual_.state, tokens, nullptr, actual_.math);
    bool decided = true;
    for (std::int64_t r = 0; r < expected.rows(); ++r)
      decided = check_row({expected.row(r).data(), expected.row(r).data() + expected.cols()},
                          {actual.row(r).data(), actual.row(r).data() + actual.cols()}) &&
                decided;
    REQUIRE(actual_.state->length() == expected_.state->length());
    return decided;
  }

 private:
  bool check_row(const std::vector<float>& expected, const std::vector<float>& actual) {
    const double atol = kv::logits_atol(model_.config, dtype_, max_abs(expected), product_dtype_);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      INFO("position " << expected_.state->length() << ", logit " << i << ": " << actual[i]
                       << ", expected " << expected[i] << ", bound " << atol);
      REQUIRE(std::fabs(double{actual[i]} - expected[i]) <= atol);
    }
    std::vector<float> best(expected);
    std::partial_sort(best.begin(), best.begin() + 2, best.end(), std::greater<>());
    if (double{best[0]} - best[1] <= 2 * atol) return false;
    REQUIRE(kv::argmax(actual) == kv::argmax(expected));
    return true;
  }

  const kv::Model& model_;
  kv::DType dtype_, product_dtype_;
  Side expected_, actual_;
};

/// Prompt in chunks, then token by token. \return how many passes were decided
inline int feed_all(Pair& pair, Tokens tokens, std::size_t prompt_len, std::size_t chunk) {
  int num_decided = 0;
  for (std::size_t at = 0; at < tokens.size();) {
    const std::size_t count = at < prompt_len ? std::min(chunk, prompt_len - at) : 1;
    num_decided += pair.feed(tokens.subspan(at, count));
    at += count;
  }
  return num_decided;
}

}  // namespace kv_test
