// Exercise 02_kv_bytes: head_bytes_per_token() and kv_bytes().
#include <limits>

#include "course/support.hpp"
#include "kv/cost/kv_bytes.hpp"

// How a failed comparison shows them.
template <>
struct Catch::StringMaker<kv::KvBytes> {
  static std::string convert(const kv::KvBytes& bytes) {
    return "{elements " + std::to_string(bytes.elements) + ", scales " +
           std::to_string(bytes.scales) + "}";
  }
};

namespace {

// Sizes that have no factor in common by accident: a factor that is missing is seen.
struct Sizes {
  explicit Sizes(std::uint64_t salt) : random(kv_course::random_numbers(salt)) {
    shape.num_layers = static_cast<int>(kv_course::pick(random, 3, 90));
    shape.num_kv_heads = static_cast<int>(kv_course::pick(random, 2, 16));
    shape.head_dim = 64 * static_cast<int>(kv_course::pick(random, 1, 4));
    context = kv_course::pick(random, 1000, 20000);
    batch = kv_course::pick(random, 2, 12);
    UNSCOPED_INFO(shape.num_layers << " layers, " << shape.num_kv_heads << " KV heads of "
                                   << shape.head_dim << ", " << context << " tokens, batch "
                                   << batch);
  }

  std::mt19937_64 random;
  kv::KvShape shape;
  std::int64_t context = 0, batch = 0;
};

const kv::KvFormat kFp32{"fp32", 32, 0, 0}, kFp16{"fp16", 16, 0, 0}, kInt8{"int8", 8, 4, 0},
    kInt4{"int4", 4, 2, 32};

}  // namespace

TEST_CASE("K and V of every KV head count") {
  const Sizes s(1);
  const std::int64_t elements = 2 * s.shape.num_kv_heads * s.shape.head_dim;
  CHECK(kv::head_bytes_per_token(s.shape, kFp32) == kv::KvBytes{elements * 4, 0});
  CHECK(kv::head_bytes_per_token(s.shape, kFp16) == kv::KvBytes{elements * 2, 0});
}

TEST_CASE("tokens, layers and sequences multiply") {
  const Sizes s(2);
  const std::int64_t one =
      2 * s.shape.num_layers * s.context * s.shape.num_kv_heads * s.shape.head_dim * 2;  // fp16
  CHECK(kv::kv_bytes(s.shape, kFp16, s.context) == kv::KvBytes{one, 0});
  CHECK(kv::kv_bytes(s.shape, kFp16, s.context, s.batch) == kv::KvBytes{one * s.batch, 0});
  CHECK(kv::kv_bytes(s.shape, kFp32, s.context, s.batch) == kv::KvBytes{2 * one * s.batch, 0});
}

TEST_CASE("scales are counted apart") {
  const Sizes s(3);
  const std::int64_t vectors = 2 * s.shape.num_kv_heads, head_dim = s.shape.head_dim;
  const kv::KvBytes int8{vectors * head_dim, vectors * 4};
  const kv::KvBytes int4{vectors * head_dim / 2, vectors * head_dim / 32 * 2};
  CHECK(kv::head_bytes_per_token(s.shape, kInt8) == int8);
  CHECK(kv::head_bytes_per_token(s.shape, kInt4) == int4);
  const std::int64_t tokens = s.batch * s.context * s.shape.num_layers;
  CHECK(kv::kv_bytes(s.shape, kInt8, s.context, s.batch) ==
        kv::KvBytes{tokens * int8.elements, tokens * int8.scales});
}

TEST_CASE("a layer with a window holds its own number of tokens") {
  Sizes s(4);
  const std::int64_t window = kv_course::pick(s.random, 100, 900);
  std::int64_t held = 0;  // by all layers, the first of every three without a window
  for (int l = 0; l < s.shape.num_layers; ++l) {
    s.shape.windows.push_back(l % 3 == 0 ? 0 : static_cast<int>(window));
    held += l % 3 == 0 ? s.context : window;
  }
  const std::int64_t token = 2 * s.shape.num_kv_heads * s.shape.head_dim * 4;
  CHECK(kv::kv_bytes(s.shape, kFp32, s.context, s.batch) == kv::KvBytes{held * token * s.batch, 0});
  // In blocks, every layer holds whole ones.
  s.shape.windows.clear();
  const std::int64_t blocks = (s.context + 15) / 16;
  CHECK(kv::kv_bytes(s.shape, kFp32, s.context, s.batch, 16) ==
        kv::KvBytes{s.shape.num_layers * blocks * 16 * token * s.batch, 0});
}

TEST_CASE("what does not fit 63 bits is refused") {
  const Sizes s(5);
  const std::int64_t token = 2 * s.shape.num_layers * s.shape.num_kv_heads * s.shape.head_dim * 4;
  const std::int64_t most = std::numeric_limits<std::int64_t>::max() / token;
  CHECK(kv::kv_bytes(s.shape, kFp32, most) == kv::KvBytes{most * token, 0});
  CHECK_THROWS_AS(kv::kv_bytes(s.shape, kFp32, most + 1), kv::InputError);
  CHECK_THROWS_AS(kv::kv_bytes(s.shape, kFp32, s.context, most), kv::InputError);
}
