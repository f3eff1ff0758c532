#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kv/model/ops.hpp"
#include "support/span_state.hpp"

namespace {

using kv_test::normals;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr double kUnit = 0x1p-24;  // half the distance of floats near 1

kv::ModelConfig rope_config(int rope_dim, float base) {
  kv::ModelConfig config;
  config.rope_dim = rope_dim;
  config.rope_base = base;
  return config;
}

}  // namespace

TEST_CASE("rmsnorm: agrees with double at every size and scale", "[ops]") {
  std::mt19937 random(1);
  for (const std::int64_t dim : {1, 2, 7, 8, 9, 64, 100, 576, 4099}) {
    for (const float scale : {1e-6f, 1.0f, 1e6f}) {
      const std::vector<float> x = normals(dim, random, scale), weight = normals(dim, random);
      std::vector<float> out(dim + 1, kNan);
      kv::rmsnorm(x.data(), weight.data(), dim, 1e-5f, out.data());
      double sum = 0.0;
      for (const float value : x) sum += static_cast<double>(value) * value;
      const double factor = 1.0 / std::sqrt(sum / static_cast<double>(dim) + double{1e-5f});
      for (std::int64_t i = 0; i < dim; ++i) {
        const double expected = weight[i] * (x[i] * factor);
        // All terms of the sum are positive: at most dim roundings, halved by the root.
        const double allowed = (static_cast<double>(dim) / 2 + 6) * kUnit * std::fabs(expected);
        REQUIRE(std::fabs(out[i] - expected) <= allowed);
      }
      REQUIRE(std::isnan(out[dim]));
      std::vector<float> in_place = x;
      kv::rmsnorm(in_place.data(), weight.data(), dim, 1e-5f, in_place.data());
      in_place.push_back(out[dim]);
      for (std::int64_t i = 0; i < dim; ++i) REQUIRE(in_place[i] == out[i]);
    }
  }
}

TEST_CASE("rmsnorm: a row of equal numbers becomes the weights", "[ops]") {
  const std::vector<float> x(16, 3.0f), weight = {1, 2, 3, 4, 5, 6, 7, 8, 8, 7, 6, 5, 4, 3, 2, 1};
  std::vector<float> out(16);
  kv::rmsnorm(x.data(), weight.data(), 16, 0.0f, out.data());
  for (int i = 0; i < 16; ++i) REQUIRE(std::fabs(out[i] - weight[i]) <= 1e-6f);
  const std::vector<float> zeros(16, 0.0f);  // eps keeps 0 / 0 away
  kv::rmsnorm(zeros.data(), weight.data(), 16, 1e-5f, out.data());
  for (const float value : out) REQUIRE(value == 0.0f);
}

TEST_CASE("swiglu: agrees with double from -infinity to infinity", "[ops]") {
  std::mt19937 random(2);
  std::vector<float> gate = normals(1000, random, 5.0f);
  for (const float z : {0.0f, -0.0f, 87.0f, -87.0f, 88.5f, -88.5f, 104.0f, -104.0f, 1e4f, -1e4f,
                        3e38f, -3e38f, 1e-30f, -1e-30f})
    gate.push_back(z);
  for (std::int64_t dim :
       {std::int64_t{1}, std::int64_t{7}, static_cast<std::int64_t>(gate.size())}) {
    const std::vector<float> up = normals(dim, random);
    std::vector<float> out(dim + 1, kNan);
    kv::swiglu(gate.data(), up.data(), dim, out.data());
    for (std::int64_t i = 0; i < dim; ++i) {
      const double z = gate[i];
      const double expected = z / (1.0 + std::exp(-z)) * up[i];
      // exp within 2 units in the last place, an addition, a division, a product; below z = -88 the
      // true value is under 1.4e-36 and 0 is right as well.
      const double allowed = (10 * kUnit * std::fabs(expected)) + 1.4e-36 * std::fabs(up[i]);
      INFO("z " << z << " gives " << out[i] << ", expected " << expected);
      REQUIRE(std::fabs(out[i] - expected) <= allowed);
    }
    REQUIRE(std::isnan(out[dim]));
    std::vector<float> in_place(gate.begin(), gate.begin() + dim);
    kv::swiglu(in_place.data(), up.data(), dim, in_place.data());
    for (std::int64_t i = 0; i < dim; ++i) REQUIRE(in_place[i] == out[i]);
  }
  const float bad = kNan, one = 1.0f;
  float out = 0.0f;
  kv::swiglu(&bad, &one, 1, &out);
  REQUIRE(std::isnan(out));
}

TEST_CASE("rope: position 0 changes nothing and a quarter turn swaps a pair", "[ops]") {
  const std::vector<std::int64_t> positions = {0, 1};
  const kv::ModelConfig config = rope_config(4, 10000.0f);
  // Pair 0 turns by position * 1 / factor: with the factor 2 / pi by a quarter at position 1.
  const std::vector<float> factors = {0.636619772f, 1e30f};
  const kv::RopeTable rope(config, factors, positions);
  std::vector<float> heads = {1, 2, 3, 4, 5, 6};
  rope.rotate(heads.data(), 1, 6, 0);
  REQUIRE(heads == std::vector<float>{1, 2, 3, 4, 5, 6});
  rope.rotate(heads.data(), 1, 6, 1);  // (x, y) -> (-y, x), interleaved
  REQUIRE(std::fabs(heads[0] + 2.0f) <= 1e-6f);
  REQUIRE(std::fabs(heads[1] - 1.0f) <= 1e-6f);
  for (int i = 2; i < 6; ++i) REQUIRE(heads[i] == static_cast<float>(i + 1));  // 4, 5: not rotated
}

TEST_CASE("rope: agrees with double up to position 1,000,000", "[ops]") {
  std::mt19937 random(3);
  const std::vector<std::int64_t> positions = {0, 1, 2, 511, 4095, 131071, 999999, 1000000};
  for (const int rope_dim : {2, 16, 64, 128}) {
    for (const float base : {10000.0f, 500000.0f}) {
      for (const bool with_factors : {false, true}) {
        const int head_dim = rope_dim + 6, num_heads = 3;
        std::vector<float> factors;
        for (int i = 0; with_factors && i < rope_dim / 2; ++i)
          factors.push_back(1.0f + 0.37f * static_cast<float>(i));
        const kv::RopeTable rope(rope_config(rope_dim, base), factors, positions);
        for (std::size_t row = 0; row < positions.size(); ++row) {
          const std::vector<float> before = normals(num_heads * head_dim, random);
          std::vector<float> after = before;
          rope.rotate(after.data(), num_heads, head_dim, static_cast<std::int64_t>(row));
          for (int h = 0; h < num_heads; ++h) {
            for (int d = 0; d < head_dim; d += 2) {
              const double x = before[h * head_dim + d], y = before[h * head_dim + d + 1];
              double angle = 0.0;
              if (d < rope_dim) {
                angle = static_cast<double>(positions[row]) *
                        std::pow(double{base}, -static_cast<double>(d) / rope_dim);
                if (with_factors) angle /= factors[d / 2];
              }
              // Two rounded factors, two products, a sum; and the angle itself in double.
              const double allowed = 4 * kUnit * (std::fabs(x) + std::fabs(y));
              REQUIRE(std::fabs(after[h * head_dim + d] -
                                (x * std::cos(angle) - y * std::sin(angle))) <= allowed);
              REQUIRE(std::fabs(after[h * head_dim + d + 1] -
                                (x * std::sin(angle) + y * std::cos(angle))) <= allowed);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("rope: scores depend on the distance of two positions only", "[ops]") {
  std::mt19937 random(4);
  const kv::RopeTable rope(rope_config(64, 10000.0f), {},
                           std::vector<std::int64_t>{3, 10, 500003, 500010});
  const std::vector<float> q = normals(64, random), k = normals(64, random);
  double scores[2] = {};
  for (int pair = 0; pair < 2; ++pair) {
    std::vector<float> q_turned = q, k_turned = k;
    rope.rotate(q_turned.data(), 1, 64, 2 * pair + 1);
    rope.rotate(k_turned.data(), 1, 64, 2 * pair);
    for (int d = 0; d < 64; ++d) scores[pair] += double{q_turned[d]} * k_turned[d];
  }
  REQUIRE(std::fabs(scores[0] - scores[1]) <= 1e-4);
}

TEST_CASE("rope: factors that do not fit are refused", "[ops]") {
  const std::vector<std::int64_t> positions = {0};
  const std::vector<float> factors(3, 1.0f);
  REQUIRE_THROWS_AS(kv::RopeTable(rope_config(4, 1e4f), factors, positions), std::invalid_argument);
  REQUIRE_THROWS_AS(kv::RopeTable(rope_config(5, 1e4f), {}, positions), std::invalid_argument);
}
