// The same model on the CPU and on a device, fed the same tokens: chapter 3 beside chapter 2.
#pragma once

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <span>
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

/// A cache on the CPU and one on a device, with the attention of each.
class Pair {
 public:
  Pair(const kv::Model& model, kv::AttentionSteps steps, kv::DType dtype, std::int64_t capacity,
       kv::Backend backend = kv::Backend::emulated)
      : model_(model),
        dtype_(dtype),
        product_dtype_(steps.prefill == kv::AttentionStep::tensor_core ? dtype : kv::DType::f32),
        attention_(std::make_shared<kv::DeviceAttention>(kv::device(backend), model.config.heads,
                                                         dtype, steps)),
        expected_(model.config, capacity, dtype),
        actual_(kv::device(backend), model.config, capacity, dtype) {}

  /// Runs the tokens through both; every logit within the bound, and where the best is further
  /// ahead than both could err, the same is the best. \return whether all rows were decided so
  bool feed(Tokens tokens) {
    const kv::RowMajor expected = kv::forward_all(model_, expected_, tokens);
    const kv::RowMajor actual =
        kv::forward_all(model_, actual_, tokens, nullptr, std::ref(*attention_));
    bool decided = true;
    for (std::int64_t r = 0; r < expected.rows(); ++r)
      decided = check_row({expected.row(r).data(), expected.row(r).data() + expected.cols()},
                          {actual.row(r).data(), actual.row(r).data() + actual.cols()}) &&
                decided;
    REQUIRE(actual_.length() == expected_.length());
    return decided;
  }

 private:
  bool check_row(const std::vector<float>& expected, const std::vector<float>& actual) {
    const double atol = kv::logits_atol(model_.config, dtype_, max_abs(expected), product_dtype_);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      INFO("position " << expected_.length() << ", logit " << i << ": " << actual[i]
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
  std::shared_ptr<kv::DeviceAttention> attention_;
  kv::ContiguousCache expected_;
  kv::DeviceCache actual_;
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
