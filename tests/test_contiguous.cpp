// The contiguous cache: the contract of a sequence state, step by step.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>
#include <cstring>
#include <vector>

#include "kv/cache/contiguous.hpp"

namespace {

kv::ModelConfig shape(int num_layers, int num_kv_heads, int head_dim) {
  kv::ModelConfig config;
  config.num_layers = num_layers;
  config.heads = {num_kv_heads, num_kv_heads, head_dim};
  return config;
}

// Row r of layer l holds l * 1000 + r * 10 + element / head_dim * 1: tells where it came from.
std::vector<float> rows_of(const kv::ModelConfig& config, int layer, int first, int count,
                           float sign) {
  std::vector<float> rows(count * config.heads.kv_dim());
  for (int r = 0; r < count; ++r)
    for (int e = 0; e < config.heads.kv_dim(); ++e)
      rows[r * config.heads.kv_dim() + e] =
          sign * static_cast<float>(layer * 64 + (first + r) * 4 + e / config.heads.head_dim);
  return rows;
}

void append(kv::ContiguousCache& cache, const kv::ModelConfig& config, int layer, int first,
            int count) {
  cache.append(layer, rows_of(config, layer, first, count, 1).data(),
               rows_of(config, layer, first, count, -1).data(), count);
}

template <typename T>
float element(const std::byte* base, std::int64_t index) {
  T value;
  std::memcpy(&value, base + index * sizeof(T), sizeof(T));
  return kv::to_float(value);
}

float element(const kv::KvSpan& span, const std::byte* base, std::int64_t row, std::int64_t d) {
  const std::int64_t index = row * span.row_stride + d;
  if (span.dtype == kv::DType::f16) return element<kv::f16>(base, index);
  if (span.dtype == kv::DType::bf16) return element<kv::bf16>(base, index);
  return element<float>(base, index);
}

}  // namespace

TEST_CASE("contiguous cache: spans return the appended rows in order, head by head", "[cache]") {
  const auto dtype = GENERATE(kv::DType::f32, kv::DType::f16, kv::DType::bf16);
  const auto config = shape(3, 2, 5);
  kv::ContiguousCache cache(config, 7, dtype);
  for (const auto& [first, count] : {std::pair{0, 3}, {3, 1}, {4, 3}}) {
    for (int l = 0; l < 3; ++l) {
      append(cache, config, l, first, count);
      // Before the commit the layer's spans already hold the new rows; length does not.
      CHECK(cache.length() == first);
      CHECK(cache.spans(l, 0).at(0).num_rows == first + count);
    }
    cache.commit(count);
    CHECK(cache.length() == first + count);
    for (int l = 0; l < 3; ++l)
      for (int g = 0; g < 2; ++g) {
        const auto spans = cache.spans(l, g);
        REQUIRE(spans.size() == 1);
        REQUIRE(spans[0].num_rows == first + count);
        for (int r = 0; r < first + count; ++r)
          for (int d = 0; d < 5; ++d) {
            REQUIRE(element(spans[0], spans[0].k, r, d) == static_cast<float>(l * 64 + r * 4 + g));
            REQUIRE(element(spans[0], spans[0].v, r, d) == -static_cast<float>(l * 64 + r * 4 + g));
          }
      }
  }
}

TEST_CASE("contiguous cache: two appends in one pass follow each other", "[cache]") {
  const auto config = shape(2, 1, 4);
  kv::ContiguousCache cache(config, 5);
  for (int l = 0; l < 2; ++l) append(cache, config, l, 0, 1);
  cache.commit(1);
  for (int l = 0; l < 2; ++l) {
    append(cache, config, l, 1, 2);
    append(cache, config, l, 3, 1);
    const kv::KvSpan span = cache.spans(l, 0).at(0);
    REQUIRE(span.num_rows == 4);
    for (int r = 0; r < 4; ++r)
      CHECK(element(span, span.k, r, 0) == static_cast<float>(l * 64 + r * 4));
    for (int r = 0; r < 4; ++r)
      CHECK(element(span, span.v, r, 0) == -static_cast<float>(l * 64 + r * 4));
  }
  cache.commit(3);
  CHECK(cache.length() == 4);
}

TEST_CASE("contiguous cache: rows that are not written are NaN, also after truncate", "[cache]") {
  const auto dtype = GENERATE(kv::DType::f32, kv::DType::f16, kv::DType::bf16);
  const auto config = shape(2, 2, 4);
  kv::ContiguousCache cache(config, 6, dtype);
  const auto expect_nan_from = [&](std::int64_t first) {
    for (int l = 0; l < 2; ++l)
      for (int g = 0; g < 2; ++g) {
        const kv::KvSpan span = cache.spans(l, g).at(0);
        for (std::int64_t r = 0; r < 6; ++r)
          for (int d = 0; d < 4; ++d) {
            REQUIRE(std::isnan(element(span, span.k, r, d)) == (r >= first));
            REQUIRE(std::isnan(element(span, span.v, r, d)) == (r >= first));
          }
      }
  };
  expect_nan_from(0);
  for (int l = 0; l < 2; ++l) append(cache, config, l, 0, 5);
  cache.commit(5);
  expect_nan_from(5);
  cache.truncate(2);
  CHECK(cache.length() == 2);
  expect_nan_from(2);
  for (int l = 0; l < 2; ++l) append(cache, config, l, 2, 4);
  cache.commit(4);
  expect_nan_from(6);
  cache.truncate(0);
  expect_nan_from(0);
}

TEST_CASE("contiguous cache: truncate also drops rows that were appended but not committed",
          "[cache]") {
  const auto config = shape(1, 1, 4);
  kv::ContiguousCache cache(config, 4);
  append(cache, config, 0, 0, 2);
  cache.commit(2);
  append(cache, config, 0, 2, 2);
  cache.truncate(1);
  CHECK(cache.spans(0, 0)[0].num_rows == 1);
  append(cache, config, 0, 1, 3);
  cache.commit(3);
  CHECK(cache.length() == 4);
}

TEST_CASE("contiguous cache: bytes held are reserved at once, bytes in use follow the length",
          "[cache]") {
  const auto config = shape(3, 2, 5);
  kv::ContiguousCache cache(config, 7, kv::DType::bf16);
  const std::int64_t per_token = 2 * 3 * 2 * 5 * 2;
  CHECK(cache.bytes_held() == 7 * per_token);
  CHECK(cache.bytes_in_use() == 0);
  for (int l = 0; l < 3; ++l) append(cache, config, l, 0, 4);
  CHECK(cache.bytes_in_use() == 0);
  cache.commit(4);
  CHECK(cache.bytes_in_use() == 4 * per_token);
  CHECK(cache.bytes_held() == 7 * per_token);
}

TEST_CASE("contiguous cache: misuse is refused and changes nothing", "[cache]") {
  const auto config = shape(2, 1, 4);
  kv::ContiguousCache cache(config, 4);
  for (int l = 0; l < 2; ++l) append(cache, config, l, 0, 3);
  cache.commit(3);
  const std::vector<float> rows(2 * 4, 0.0f);
  CHECK_THROWS_AS(cache.append(0, rows.data(), rows.data(), 2), std::invalid_argument);
  CHECK_THROWS_AS(cache.append(2, rows.data(), rows.data(), 1), std::invalid_argument);
  CHECK_THROWS_AS(cache.append(-1, rows.data(), rows.data(), 1), std::invalid_argument);
  CHECK_THROWS_AS(cache.append(0, rows.data(), rows.data(), -1), std::invalid_argument);
  CHECK_THROWS_AS(cache.spans(0, 1), std::invalid_argument);
  CHECK_THROWS_AS(cache.truncate(4), std::invalid_argument);
  CHECK_THROWS_AS(kv::ContiguousCache(config, -1), std::invalid_argument);
  CHECK_THROWS_AS(kv::ContiguousCache(config, 1, kv::DType::q8_0), std::invalid_argument);
  cache.append(0, rows.data(), rows.data(), 1);
  // Layer 1 has not appended: the pass is not complete.
  CHECK_THROWS_AS(cache.commit(1), std::invalid_argument);
  CHECK(cache.length() == 3);
}
