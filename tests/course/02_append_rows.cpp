// Exercise 02_append_rows: ContiguousCache::append().
#include <cstring>
#include <optional>
#include <stdexcept>

#include "course/support.hpp"
#include "kv/cache/contiguous.hpp"

namespace {

// A cache whose shape comes from the seed, and what has been appended to it.
struct Cache {
  explicit Cache(std::uint64_t salt, kv::DType dtype = kv::DType::f32)
      : random(kv_course::random_numbers(salt)), dtype(dtype) {
    config.num_layers = static_cast<int>(kv_course::pick(random, 3, 5));
    config.heads.num_kv_heads = static_cast<int>(kv_course::pick(random, 2, 4));
    config.heads.num_q_heads = 2 * config.heads.num_kv_heads;
    config.heads.head_dim = static_cast<int>(kv_course::pick(random, 3, 9));
    capacity = kv_course::pick(random, 20, 30);
    k.resize(static_cast<std::size_t>(config.num_layers));
    v.resize(static_cast<std::size_t>(config.num_layers));
    cache.emplace(config, capacity, dtype);
  }

  void append(int layer, std::int64_t num_rows) {
    const std::int64_t count = num_rows * config.heads.kv_dim();
    const std::vector<float> new_k = kv_course::random_floats(random, count);
    const std::vector<float> new_v = kv_course::random_floats(random, count);
    cache->append(layer, new_k.data(), new_v.data(), num_rows);
    const auto l = static_cast<std::size_t>(layer);
    k[l].insert(k[l].end(), new_k.begin(), new_k.end());
    v[l].insert(v[l].end(), new_v.begin(), new_v.end());
  }

  // A whole pass: every layer, then the commit.
  void pass(std::int64_t num_rows) {
    for (int l = 0; l < config.num_layers; ++l) append(l, num_rows);
    cache->commit(num_rows);
  }

  // The layer holds what was appended to it, behind that NaN up to the capacity.
  void expect_layer(int layer, double atol = 0) {
    const auto l = static_cast<std::size_t>(layer);
    expect_rows("K of layer " + std::to_string(layer), layer, true, k[l], atol);
    expect_rows("V of layer " + std::to_string(layer), layer, false, v[l], atol);
  }

  void expect_rows(const std::string& name, int layer, bool is_k,
                   const std::vector<float>& appended, double atol) {
    const kv::HeadConfig& heads = config.heads;
    const std::int64_t num_rows = static_cast<std::int64_t>(appended.size()) / heads.kv_dim();
    std::vector<float> got;
    bool behind_is_nan = true;
    for (std::int64_t r = 0; r < capacity; ++r)
      for (int g = 0; g < heads.num_kv_heads; ++g) {
        const kv::KvSpan span = cache->spans(layer, g).at(0);
        INFO(name);
        REQUIRE(span.num_rows == num_rows);
        for (int d = 0; d < heads.head_dim; ++d) {
          const float x = element(is_k ? span.k : span.v, r * span.row_stride + d);
          if (r < num_rows)
            got.push_back(x);
          else
            behind_is_nan = behind_is_nan && std::isnan(x);
        }
      }
    kv_course::expect_close(name, {num_rows, heads.num_kv_heads, heads.head_dim}, got, appended,
                            atol);
    INFO(name << ", behind its rows");
    CHECK(behind_is_nan);
  }

  template <typename T>
  static float read(const std::byte* from, std::int64_t index) {
    T value;
    std::memcpy(&value, from + index * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
    return kv::to_float(value);
  }

  float element(const std::byte* from, std::int64_t index) const {
    if (dtype == kv::DType::f16) return read<kv::f16>(from, index);
    if (dtype == kv::DType::bf16) return read<kv::bf16>(from, index);
    return read<float>(from, index);
  }

  std::mt19937_64 random;
  kv::DType dtype;
  kv::ModelConfig config;
  std::int64_t capacity = 0;
  std::optional<kv::ContiguousCache> cache;
  std::vector<std::vector<float>> k, v;  // [num_layers] what was appended
};

}  // namespace

TEST_CASE("new rows come behind the committed ones") {
  Cache c(1);
  c.pass(kv_course::pick(c.random, 2, 6));
  for (int i = 0; i < 3; ++i) c.pass(1);
  c.pass(kv_course::pick(c.random, 2, 6));
  for (int l = 0; l < c.config.num_layers; ++l) c.expect_layer(l);
}

TEST_CASE("rows appended twice in a pass follow each other") {
  Cache c(2);
  c.pass(kv_course::pick(c.random, 2, 6));
  c.append(1, kv_course::pick(c.random, 2, 6));
  c.append(1, 1);
  c.append(1, kv_course::pick(c.random, 2, 6));
  c.expect_layer(1);
}

TEST_CASE("every layer has rows of its own") {
  Cache c(3);
  c.pass(kv_course::pick(c.random, 2, 6));
  const int last = c.config.num_layers - 1;
  c.append(0, 2);
  c.append(last, 3);
  for (int l = 0; l <= last; ++l) c.expect_layer(l);
}

TEST_CASE("rows are stored in the cache's format") {
  for (const kv::DType dtype : {kv::DType::f16, kv::DType::bf16}) {
    Cache c(4, dtype);
    c.append(0, 3);
    c.append(1, 4);
    // Half a step of the format below 1.
    const double atol = dtype == kv::DType::f16 ? 0x1p-12 : 0x1p-9;
    for (int l = 0; l < c.config.num_layers; ++l) c.expect_layer(l, atol);
  }
}

TEST_CASE("rows that do not fit are refused and not written") {
  Cache c(5);
  c.pass(c.capacity - 3);
  c.append(0, 2);  // one slot is left
  const std::vector<float> rows =
      kv_course::random_floats(c.random, c.capacity * c.config.heads.kv_dim());
  CHECK_THROWS_AS(c.cache->append(0, rows.data(), rows.data(), 2), std::invalid_argument);
  CHECK_THROWS_AS(c.cache->append(0, rows.data(), rows.data(), -1), std::invalid_argument);
  for (int l = 0; l < c.config.num_layers; ++l) c.expect_layer(l);
  CHECK_THROWS_AS(c.cache->append(c.config.num_layers, rows.data(), rows.data(), 1),
                  std::invalid_argument);
  CHECK_THROWS_AS(c.cache->append(-1, rows.data(), rows.data(), 1), std::invalid_argument);
  c.append(0, 1);
  c.expect_layer(0);
}
