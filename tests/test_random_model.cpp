// The random models that other tests run on.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "kv/model/dequantize.hpp"
#include "support/random_model.hpp"

using kv::DType;

namespace {

using Bytes = std::vector<std::byte>;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

}  // namespace

TEST_CASE("random model: stored numbers differ from those asked for by at most half a step",
          "[random_model]") {
  std::mt19937 random(3);
  std::vector<float> values(32 * 64);
  for (float& x : values) x = static_cast<float>(random() % 2000001) / 1e6f - 1.0f;
  std::fill_n(values.begin(), 32, 0.0f);  // a block of zeros has scale 0
  const auto stored = [&values](DType dtype) {
    kv::WeightMatrix w{dtype, 1, static_cast<std::int64_t>(values.size()), nullptr};
    Bytes bytes(static_cast<std::size_t>(w.bytes()));
    kv_test::quantize(dtype, values, bytes.data());
    std::vector<float> out(values.size(), kNan);
    kv::dequantize_blocks(dtype, bytes.data(), out);
    return out;
  };
  const std::vector<float> f32 = stored(DType::f32), f16 = stored(DType::f16),
                           bf16 = stored(DType::bf16), q8 = stored(DType::q8_0);
  for (std::size_t i = 0; i < values.size(); ++i) {
    CHECK(f32[i] == values[i]);
    CHECK(std::fabs(f16[i] - values[i]) <= std::fabs(values[i]) * 0x1p-11f);
    CHECK(std::fabs(bf16[i] - values[i]) <= std::fabs(values[i]) * 0x1p-8f);
    // Half a step of max / 127 with max <= 1, and the rounding of the scale to a half, 127 times.
    CHECK(std::fabs(q8[i] - values[i]) <= 0.5f / 127.0f + 0x1p-11f);
  }
}

TEST_CASE("random model: shape and seed decide every byte", "[random_model]") {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::q8_0}) {
    kv_test::RandomModelShape shape;
    shape.num_q_heads = 6;
    shape.num_kv_heads = 3;
    shape.head_dim = 32;
    shape.d_model = 96;  // not num_q_heads * head_dim
    shape.dtype = dtype;
    const kv::Model a = kv_test::random_model(shape);
    const kv::Model b = kv_test::random_model(shape);
    shape.seed = 2;
    shape.tied = false;
    const kv::Model c = kv_test::random_model(shape);

    const auto same = [](const kv::WeightMatrix& x, const kv::WeightMatrix& y) {
      return x.bytes() == y.bytes() &&
             std::memcmp(x.data, y.data, static_cast<std::size_t>(x.bytes())) == 0;
    };
    CHECK(a.tied());
    CHECK_FALSE(c.tied());
    CHECK(a.layers[1].q.num_rows == 192);
    CHECK(a.layers[1].q.num_cols == 96);
    CHECK(a.layers[1].o.num_cols == 192);
    CHECK(same(a.layers[1].down, b.layers[1].down));
    CHECK_FALSE(same(a.layers[1].down, c.layers[1].down));
    // 64 x 96 embedding, 2 layers of (96 + 192*96 + 2*96*96 + 96*192 + 96 + 3*192*96), 96 norms.
    CHECK(a.num_parameters() == 64 * 96 + 2 * (96 * (192 + 2 * 96 + 192 + 3 * 192) + 192) + 96);
    CHECK(c.num_parameters() == a.num_parameters() + 64 * 96);
  }
}
