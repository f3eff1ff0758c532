// The cache on a device: everything that the contiguous cache of chapter 2 does, bit for bit.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "cache/device_cache.hpp"
#include "kv/cache/contiguous.hpp"
#include "kv/cost/kv_bytes.hpp"

namespace {

using kv::DType;

kv::ModelConfig shape(int num_layers, int num_kv_heads, int head_dim) {
  kv::ModelConfig config;
  config.num_layers = num_layers;
  config.heads = {num_kv_heads, num_kv_heads, head_dim};
  return config;
}

kv::Device& emulated() { return kv::device(kv::Backend::emulated); }

// Bytes of the row of a span as they lie in the cache, fetched from the device or read on the host.
std::vector<std::byte> row_bytes(const kv::KvSpan& span, const std::byte* base, std::int64_t row,
                                 int head_dim, kv::Device* device) {
  const int element = kv::info(span.dtype).block_bytes;
  std::vector<std::byte> bytes(static_cast<std::size_t>(head_dim * element));
  const std::byte* from = base + row * span.row_stride * element;
  if (device != nullptr)
    device->copy_to_host(bytes.data(), from, bytes.size());
  else
    std::memcpy(bytes.data(), from, bytes.size());
  return bytes;
}

// Both caches hold the same bytes in all of their capacity: what is written, and NaN behind it.
void require_same(const kv::DeviceCache& on_device, const kv::ContiguousCache& expected,
                  const kv::ModelConfig& config) {
  REQUIRE(on_device.length() == expected.length());
  REQUIRE(on_device.capacity() == expected.capacity());
  REQUIRE(on_device.bytes_held() == expected.bytes_held());
  REQUIRE(on_device.bytes_in_use() == expected.bytes_in_use());
  for (int l = 0; l < config.num_layers; ++l)
    for (int g = 0; g < config.heads.num_kv_heads; ++g) {
      const auto a = on_device.spans(l, g), b = expected.spans(l, g);
      REQUIRE(a.size() == 1);
      REQUIRE(a[0].num_rows == b[0].num_rows);
      REQUIRE(a[0].row_stride == b[0].row_stride);
      REQUIRE(a[0].dtype == b[0].dtype);
      const int d = config.heads.head_dim;
      for (std::int64_t r = 0; r < expected.capacity(); ++r) {
        INFO("layer " << l << ", KV head " << g << ", row " << r);
        REQUIRE(row_bytes(a[0], a[0].k, r, d, &emulated()) ==
                row_bytes(b[0], b[0].k, r, d, nullptr));
        REQUIRE(row_bytes(a[0], a[0].v, r, d, &emulated()) ==
                row_bytes(b[0], b[0].v, r, d, nullptr));
      }
    }
}

// Numbers that round, overflow fp16, are subnormal in it, or are not numbers at all.
std::vector<float> awkward_rows(std::int64_t count, std::mt19937& random) {
  const float special[] = {0.0f,
                           -0.0f,
                           1e-8f,
                           6e-5f,
                           65519.0f,
                           65520.0f,
                           1e30f,
                           -3e38f,
                           1e-40f,
                           1.0009765f,
                           std::numeric_limits<float>::infinity()};
  std::vector<float> rows(static_cast<std::size_t>(count));
  std::normal_distribution<float> normal;
  for (float& x : rows)
    x = random() % 4 == 0 ? special[random() % std::size(special)] : normal(random);
  return rows;
}

}  // namespace

TEST_CASE("device cache: it holds the bytes of the contiguous cache after any operations",
          "[kernels][cache]") {
  const auto dtype = GENERATE(DType::f32, DType::f16, DType::bf16);
  const auto seed = GENERATE(1u, 2u, 3u);
  std::mt19937 random(seed);
  const int num_layers = 1 + static_cast<int>(random() % 3);
  const int num_kv_heads = 1 + static_cast<int>(random() % 3);
  const auto config = shape(num_layers, num_kv_heads, 3 + static_cast<int>(random() % 5));
  const std::int64_t capacity = 9;
  kv::DeviceCache on_device(emulated(), config, capacity, dtype);
  kv::ContiguousCache expected(config, capacity, dtype);
  require_same(on_device, expected, config);
  for (int operation = 0; operation < 30; ++operation) {
    if (random() % 4 == 0) {
      const std::int64_t left = static_cast<std::int64_t>(random() % (expected.length() + 1));
      on_device.truncate(left);
      expected.truncate(left);
    } else {
      const std::int64_t room = capacity - expected.length();
      const std::int64_t count = static_cast<std::int64_t>(random() % (room + 1));
      const std::int64_t first = count == 0 ? 0 : static_cast<std::int64_t>(random() % count);
      for (int l = 0; l < config.num_layers; ++l)
        for (const std::int64_t part : {first, count - first}) {  // two appends follow each other
          const auto k = awkward_rows(part * config.heads.kv_dim(), random);
          const auto v = awkward_rows(part * config.heads.kv_dim(), random);
          on_device.append(l, k.data(), v.data(), part);
          expected.append(l, k.data(), v.data(), part);
        }
      require_same(on_device, expected, config);  // appended, not committed
      if (random() % 5 == 0) {                    // given up: truncate drops what was appended
        on_device.truncate(expected.length());
        expected.truncate(expected.length());
      } else {
        on_device.commit(count);
        expected.commit(count);
      }
    }
    require_same(on_device, expected, config);
  }
}

TEST_CASE("device cache: the calculator's bytes are those that it holds", "[kernels][cache]") {
  const auto dtype = GENERATE(DType::f32, DType::f16, DType::bf16);
  const auto config = shape(3, 2, 80);
  const kv::DeviceCache cache(emulated(), config, 11, dtype);
  CHECK(cache.bytes_held() == kv::kv_bytes(kv::kv_shape(config), kv::kv_format(dtype), 11).total());
  CHECK(cache.bytes_in_use() == 0);
}

TEST_CASE("device cache: a cache without room can be made and takes nothing", "[kernels][cache]") {
  const auto config = shape(2, 1, 4);
  kv::DeviceCache cache(emulated(), config, 0);
  CHECK(cache.bytes_held() == 0);
  CHECK(cache.spans(1, 0).at(0).num_rows == 0);
  const float row[4] = {};
  CHECK_THROWS_AS(cache.append(0, row, row, 1), std::invalid_argument);
}

TEST_CASE("device cache: misuse is refused and changes nothing", "[kernels][cache]") {
  const auto config = shape(2, 1, 4);
  kv::DeviceCache cache(emulated(), config, 4);
  const std::vector<float> rows(4 * 4, 1.0f);
  for (int l = 0; l < 2; ++l) cache.append(l, rows.data(), rows.data(), 3);
  cache.commit(3);
  CHECK_THROWS_AS(cache.append(0, rows.data(), rows.data(), 2), std::invalid_argument);
  CHECK_THROWS_AS(cache.append(2, rows.data(), rows.data(), 1), std::invalid_argument);
  CHECK_THROWS_AS(cache.append(-1, rows.data(), rows.data(), 1), std::invalid_argument);
  CHECK_THROWS_AS(cache.append(0, rows.data(), rows.data(), -1), std::invalid_argument);
  CHECK_THROWS_AS(cache.spans(0, 1), std::invalid_argument);
  CHECK_THROWS_AS(cache.spans(2, 0), std::invalid_argument);
  CHECK_THROWS_AS(cache.truncate(4), std::invalid_argument);
  CHECK_THROWS_AS(kv::DeviceCache(emulated(), config, -1), std::invalid_argument);
  CHECK_THROWS_AS(kv::DeviceCache(emulated(), config, 1, DType::q8_0), std::invalid_argument);
  cache.append(0, rows.data(), rows.data(), 1);
  // Layer 1 has not appended: the pass is not complete.
  CHECK_THROWS_AS(cache.commit(1), std::invalid_argument);
  CHECK(cache.length() == 3);
  CHECK(cache.num_rows(0) == 4);
}

TEST_CASE("device cache: caches that share memory never touch each other's rows",
          "[kernels][cache]") {
  const auto config = shape(2, 2, 4);
  const auto memory = std::make_shared<kv::DeviceRows>(emulated(), config, 10, DType::f32);
  kv::DeviceCache a(memory, 3), b(memory, 5);
  CHECK(a.first_row() == 0);
  CHECK(b.first_row() == 3);
  CHECK(a.bytes_held() + b.bytes_held() == 8 * 2 * 2 * 8 * 4);
  CHECK_THROWS_AS(kv::DeviceCache(memory, 3), std::invalid_argument);  // 2 rows are left
  kv::ContiguousCache expected_a(config, 3), expected_b(config, 5);
  std::mt19937 random(1);
  const auto append = [&](kv::DeviceCache& cache, kv::ContiguousCache& expected, int count) {
    for (int l = 0; l < 2; ++l) {
      const auto k = awkward_rows(count * 8, random), v = awkward_rows(count * 8, random);
      cache.append(l, k.data(), v.data(), count);
      expected.append(l, k.data(), v.data(), count);
    }
    cache.commit(count);
    expected.commit(count);
    require_same(a, expected_a, config);
    require_same(b, expected_b, config);
  };
  append(b, expected_b, 5);
  append(a, expected_a, 3);
  b.truncate(2);
  expected_b.truncate(2);
  require_same(a, expected_a, config);
  require_same(b, expected_b, config);
  a.truncate(0);
  expected_a.truncate(0);
  append(a, expected_a, 2);
}
