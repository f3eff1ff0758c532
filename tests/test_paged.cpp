// The paged cache: the contract of a sequence state over scattered blocks, and what is shared.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <cmath>
#include <stdexcept>
#include <utility>
#include <vector>

#include "kv/cache/host_blocks.hpp"
#include "kv/cache/paged.hpp"
#include "kv/cost/kv_bytes.hpp"
#include "support/paged_check.hpp"

namespace {

using Ids = std::vector<kv::BlockId>;
using Pool = std::shared_ptr<kv::PagedPool>;

constexpr int kLayers = 2;
constexpr kv::HeadConfig kHeads{4, 2, 3};

Pool make_pool(kv::BlockId num_blocks, std::int32_t block_size,
               kv::KvDType dtype = kv::DType::f32) {
  return kv::make_host_pool({kHeads, kLayers, num_blocks, block_size, dtype});
}

// K of a token in a layer and head; V is its negative. All are exact in the three formats.
float value(int token, int layer, int head) {
  return static_cast<float>(token * 4 + layer * 2 + head);
}

// One pass over `tokens`, in every layer.
void append(kv::PagedCache& cache, int layer, const std::vector<int>& tokens) {
  std::vector<float> k, v;
  for (const int token : tokens)
    for (int g = 0; g < kHeads.num_kv_heads; ++g)
      for (int d = 0; d < kHeads.head_dim; ++d) {
        k.push_back(value(token, layer, g));
        v.push_back(-value(token, layer, g));
      }
  cache.append(layer, k.data(), v.data(), static_cast<std::int64_t>(tokens.size()));
}

void run(kv::PagedCache& cache, const std::vector<int>& tokens) {
  for (int l = 0; l < kLayers; ++l) append(cache, l, tokens);
  cache.commit(static_cast<std::int64_t>(tokens.size()));
}

// The tokens that the spans of every layer and head hold; all must agree, K and V.
std::vector<int> tokens_of(const kv::PagedCache& cache) {
  std::vector<int> tokens;
  for (int l = 0; l < kLayers; ++l)
    for (int g = 0; g < kHeads.num_kv_heads; ++g) {
      std::vector<int> seen;
      for (const kv::KvSpan& span : cache.spans(l, g))
        for (std::int64_t r = 0; r < span.num_rows; ++r) {
          const float k = kv_test::element(span.k, span.dtype, r * span.row_stride);
          for (int d = 0; d < kHeads.head_dim; ++d) {
            REQUIRE(kv_test::element(span.k, span.dtype, r * span.row_stride + d) == k);
            REQUIRE(kv_test::element(span.v, span.dtype, r * span.row_stride + d) == -k);
          }
          seen.push_back(static_cast<int>(k - value(0, l, g)) / 4);
          REQUIRE(value(seen.back(), l, g) == k);
        }
      if (l == 0 && g == 0) tokens = seen;
      REQUIRE(tokens == seen);
    }
  return tokens;
}

std::vector<int> range_of(int first, int count) {
  std::vector<int> tokens;
  for (int t = 0; t < count; ++t) tokens.push_back(first + t);
  return tokens;
}

}  // namespace

TEST_CASE("paged cache: spans return the appended rows in order, a span a block", "[paged]") {
  const auto dtype = GENERATE(kv::DType::f32, kv::DType::f16, kv::DType::bf16);
  const std::int32_t block_size = GENERATE(1, 2, 3, 4, 5, 8, 16);
  const Pool pool = make_pool(16, block_size, dtype);
  kv_test::shuffle_free_blocks(pool, 7);
  kv::PagedCache cache(pool);
  CHECK(cache.spans(0, 0).empty());
  for (const auto& [first, count] : {std::pair{0, 3}, {3, 1}, {4, 5}, {9, 4}}) {
    for (int l = 0; l < kLayers; ++l) {
      append(cache, l, range_of(first, count));
      // Before the commit the layer's spans hold the new rows; length does not.
      CHECK(cache.length() == first);
      CHECK(cache.num_rows(l) == first + count);
      std::int64_t rows = 0;
      for (const kv::KvSpan& span : cache.spans(l, 1)) rows += span.num_rows;
      CHECK(rows == first + count);
    }
    cache.commit(count);
    CHECK(cache.length() == first + count);
    CHECK(tokens_of(cache) == range_of(0, first + count));
  }
  const auto spans = cache.spans(1, 0);
  CHECK(static_cast<std::int64_t>(spans.size()) == kv::num_blocks_for(13, block_size));
  CHECK(spans.back().num_rows == kv::tokens_in_last_block(13, block_size));
  for (const kv::KvSpan& span : spans) CHECK(span.row_stride == kHeads.kv_dim());
}

TEST_CASE("paged cache: two appends in one pass follow each other", "[paged]") {
  const Pool pool = make_pool(4, 2);
  kv::PagedCache cache(pool);
  run(cache, {0});
  for (int l = 0; l < kLayers; ++l) {
    append(cache, l, {1, 2});
    append(cache, l, {3});
    append(cache, l, {4});  // behind all that was appended: a block more
  }
  cache.commit(4);
  CHECK(tokens_of(cache) == range_of(0, 5));
}

TEST_CASE("paged cache: reserved blocks are in no span", "[paged]") {
  const Pool pool = make_pool(4, 2);
  kv::PagedCache cache(pool);
  REQUIRE(cache.reserve(8));
  CHECK(cache.spans(0, 0).empty());
  run(cache, {0, 1});
  REQUIRE(cache.reserve(6));
  CHECK(cache.table().blocks.size() == 4);
  CHECK(cache.spans(0, 0).size() == 1);
  CHECK(cache.bytes_held() == 4 * pool->storage->shape().block_bytes());
}

TEST_CASE("paged cache: slots that no one has written are NaN, also after truncate and at the end",
          "[paged]") {
  const auto dtype = GENERATE(kv::DType::f32, kv::DType::f16, kv::DType::bf16);
  const Pool pool = make_pool(4, 3, dtype);
  const auto written = [&] {
    std::vector<kv::Slot> slots;
    for (kv::Slot slot = 0; slot < 12; ++slot)
      if (!kv_test::slot_is_nan(*pool->storage, slot)) slots.push_back(slot);
    return slots;
  };
  CHECK(written().empty());
  {
    kv::PagedCache cache(pool);
    run(cache, range_of(0, 7));
    CHECK(written() == std::vector<kv::Slot>{0, 1, 2, 3, 4, 5, 6});
    cache.truncate(5);
    CHECK(written() == std::vector<kv::Slot>{0, 1, 2, 3, 4});
    cache.truncate(3);
    CHECK(written() == std::vector<kv::Slot>{0, 1, 2});
    // Rows that were appended but not committed go as well.
    for (int l = 0; l < kLayers; ++l) append(cache, l, {8, 9});
    CHECK(written().size() == 5);
    cache.truncate(3);
    CHECK(written() == std::vector<kv::Slot>{0, 1, 2});
    append(cache, 0, {3});
    cache.truncate(2);
    CHECK(written() == std::vector<kv::Slot>{0, 1});
    run(cache, range_of(2, 6));
    CHECK(tokens_of(cache) == range_of(0, 8));
    // The same within a block that stays.
    cache.truncate(4);
    for (int l = 0; l < kLayers; ++l) append(cache, l, {8, 9});
    CHECK(written().size() == 6);
    cache.truncate(4);
    CHECK(written() == std::vector<kv::Slot>{0, 1, 2, 3});
  }
  CHECK(written().empty());
  CHECK(pool->allocator.pool().num_free() == 4);
}

// Case D6.
TEST_CASE("paged cache: a sequence on used blocks is the same as on fresh ones", "[paged][cases]") {
  const Pool pool = make_pool(5, 4);
  {
    kv::PagedCache a(pool);
    run(a, range_of(100, 20));
  }
  CHECK(kv_test::free_blocks_are_nan(*pool));
  kv::PagedCache b(pool);
  run(b, range_of(0, 7));
  CHECK(tokens_of(b) == range_of(0, 7));
}

// Case D11.
TEST_CASE("paged cache: padding rows write nothing, and block 0 is an ordinary block",
          "[paged][cases]") {
  const Pool pool = make_pool(3, 2);
  kv::PagedCache first(pool), second(pool);
  run(first, {1});
  run(second, {2});
  CHECK(first.table().blocks == Ids{0});
  // A batch of two, padded to four rows; padding may stand before a row, too.
  const std::vector<kv::Slot> slots = {first.table().slot(1), -1, second.table().slot(1), -1};
  const std::vector<float> rows(4 * static_cast<std::size_t>(kHeads.kv_dim()), 99.0f);
  for (int l = 0; l < kLayers; ++l) pool->storage->write(l, slots, rows.data(), rows.data());
  CHECK(tokens_of(first) == std::vector<int>{1});
  CHECK(tokens_of(second) == std::vector<int>{2});
  CHECK_FALSE(kv_test::slot_is_nan(*pool->storage, 1));
  CHECK_FALSE(kv_test::slot_is_nan(*pool->storage, 3));
  for (const kv::Slot slot : {4, 5}) CHECK(kv_test::slot_is_nan(*pool->storage, slot));
}

// Case D12, whole and in part. In part: only the tokens in use travel.
TEST_CASE("paged cache: a copy changes one block, in every layer, K and V", "[paged][cases]") {
  const std::int32_t num_tokens = GENERATE(4, 3, 1, 0);
  constexpr std::int64_t kRow = 6, kSize = 4;
  kv::HostBlocks blocks({kHeads, 3, 8, kSize, kv::DType::f32});
  std::vector<kv::Slot> slots;
  for (kv::Slot slot = 0; slot < 8 * kSize; ++slot) slots.push_back(slot);
  const std::int64_t layer_elements = 8 * kSize * kRow;
  for (int l = 0; l < 3; ++l) {  // every element is its own flat index, V behind K
    std::vector<float> k, v;
    for (std::int64_t i = 0; i < layer_elements; ++i) {
      k.push_back(static_cast<float>(l * layer_elements + i));
      v.push_back(static_cast<float>((3 + l) * layer_elements + i));
    }
    blocks.write(l, slots, k.data(), v.data());
  }
  const kv::BlockCopy copy{3, 5, num_tokens};
  blocks.copy({&copy, 1});
  for (int l = 0; l < 3; ++l)
    for (std::int64_t i = 0; i < layer_elements; ++i) {
      const bool copied = i / kRow >= 5 * kSize && i / kRow < 5 * kSize + num_tokens;
      const std::int64_t from = copied ? i - 2 * kSize * kRow : i;
      REQUIRE(kv_test::element(blocks.k(l), kv::DType::f32, i) ==
              static_cast<float>(l * layer_elements + from));
      REQUIRE(kv_test::element(blocks.v(l), kv::DType::f32, i) ==
              static_cast<float>((3 + l) * layer_elements + from));
    }
}

// Cases E6 and E7.
TEST_CASE("paged cache: forks that write different tokens do not see each other's",
          "[paged][cases]") {
  const int prompt = GENERATE(6, 8, 5, 1);
  const Pool pool = make_pool(8, 4);
  kv::PagedCache a(pool);
  run(a, range_of(0, prompt));
  kv::PagedCache b = a.fork();
  kv::PagedCache c = b.fork();
  run(a, {50});
  run(b, {60, 61});
  run(c, {70});
  run(a, {51});
  const auto with = [&](std::vector<int> more) {
    std::vector<int> tokens = range_of(0, prompt);
    tokens.insert(tokens.end(), more.begin(), more.end());
    return tokens;
  };
  CHECK(tokens_of(a) == with({50, 51}));
  CHECK(tokens_of(b) == with({60, 61}));
  CHECK(tokens_of(c) == with({70}));
  CHECK(pool->num_copies == (prompt % 4 == 0 ? 0 : 2));
  // What was copied is the beginning of the block alone.
  for (const kv::PagedCache* cache : {&a, &b, &c})
    for (std::int64_t t = cache->length(); t < cache->table().num_slots(); ++t)
      CHECK(kv_test::slot_is_nan(*pool->storage, cache->table().slot(t)));
}

TEST_CASE("paged cache: truncating a fork leaves the other's tokens in place", "[paged]") {
  const Pool pool = make_pool(8, 4);
  kv::PagedCache a(pool);
  run(a, range_of(0, 7));
  kv::PagedCache b = a.fork();
  b.truncate(5);
  CHECK(tokens_of(a) == range_of(0, 7));
  run(b, {80, 81, 82});
  CHECK(tokens_of(a) == range_of(0, 7));
  CHECK(tokens_of(b) == std::vector<int>{0, 1, 2, 3, 4, 80, 81, 82});
  a.truncate(0);
  CHECK(tokens_of(b) == std::vector<int>{0, 1, 2, 3, 4, 80, 81, 82});
}

TEST_CASE("paged cache: a prompt that is known is adopted, and evicted blocks are erased",
          "[paged][prefix]") {
  const Pool pool = make_pool(4, 2);
  const std::vector<kv::TokenId> prompt = {0, 1, 2, 3, 4};
  {
    kv::PagedCache a(pool);
    run(a, range_of(0, 5));
    a.publish(prompt);
  }
  CHECK(pool->allocator.index().num_idle() == 2);
  kv::PagedCache b(pool);
  CHECK(b.adopt_prefix(prompt) == 4);
  CHECK(tokens_of(b) == range_of(0, 4));
  run(b, {4});
  CHECK(tokens_of(b) == range_of(0, 5));
  b.truncate(0);
  // Three blocks for another text: the tail of the chain is evicted, its old rows are gone.
  kv::PagedCache c(pool);
  REQUIRE(c.reserve(6));
  for (std::int64_t t = 0; t < 6; ++t)
    CHECK(kv_test::slot_is_nan(*pool->storage, c.table().slot(t)));
  run(c, range_of(30, 5));
  CHECK(tokens_of(c) == range_of(30, 5));
  kv::PagedCache d(pool);
  CHECK(d.adopt_prefix(prompt) == 2);
  CHECK(tokens_of(d) == range_of(0, 2));
}

TEST_CASE("paged cache: a copy into a block that was just evicted keeps its rows",
          "[paged][prefix]") {
  const Pool pool = make_pool(2, 2);
  {
    kv::PagedCache known(pool);
    run(known, {0, 1});
    known.publish(std::vector<kv::TokenId>{0, 1});
  }
  kv::PagedCache a(pool);
  run(a, {7});
  kv::PagedCache b = a.fork();
  CHECK(pool->allocator.pool().num_free() == 0);
  run(b, {8});  // evicts the known block, erases it, copies token 7 there
  CHECK(tokens_of(b) == std::vector<int>{7, 8});
  CHECK(tokens_of(a) == std::vector<int>{7});
}

TEST_CASE("paged cache: exhaustion is an answer and leaves the sequence as it was", "[paged]") {
  const kv::BlockId num_blocks = GENERATE(range(0, 7));
  const Pool pool = make_pool(num_blocks, 2);
  kv::PagedCache cache(pool);
  const std::int64_t room = num_blocks * 2;
  CHECK(cache.capacity() == room);
  std::vector<int> tokens;
  for (int t = 0; t < 14; ++t) {
    const bool fits = cache.reserve(1);
    CHECK(fits == (t < room));
    if (!fits) {
      CHECK(cache.capacity() == room);
      CHECK_THROWS_AS(append(cache, 0, {t}), std::invalid_argument);
      CHECK(cache.num_rows(0) == room);
      continue;
    }
    run(cache, {t});
    tokens.push_back(t);
    CHECK(tokens_of(cache) == tokens);
  }
  cache.truncate(std::max<std::int64_t>(0, room - 1));
  if (room > 0) {
    run(cache, {77});
    tokens.back() = 77;
  }
  CHECK(tokens_of(cache) == tokens);
}

TEST_CASE("paged cache: of two sequences that reserved, neither can lose its slots", "[paged]") {
  const Pool pool = make_pool(2, 2);
  kv::PagedCache a(pool), b(pool);
  REQUIRE(a.reserve(2));
  REQUIRE(b.reserve(1));
  CHECK_FALSE(a.reserve(3));
  CHECK(a.capacity() == 2);
  run(b, {5, 6});
  run(a, {7, 8});
  CHECK(tokens_of(a) == std::vector<int>{7, 8});
  CHECK(tokens_of(b) == std::vector<int>{5, 6});
}

TEST_CASE("paged cache: bytes are those of its blocks, and what the calculator says", "[paged]") {
  const auto dtype = GENERATE(kv::DType::f32, kv::DType::bf16);
  const std::int32_t block_size = GENERATE(1, 4, 16);
  const Pool pool = make_pool(20, block_size, dtype);
  const kv::KvShape shape{kLayers, kHeads.num_kv_heads, kHeads.head_dim, 0, 0, {}};
  kv::PagedCache cache(pool);
  CHECK(cache.bytes_held() == 0);
  for (int t = 0; t < 17; ++t) {
    run(cache, {t});
    CHECK(cache.bytes_held() ==
          kv::kv_bytes(shape, kv::kv_format(dtype), t + 1, 1, block_size).total());
    CHECK(cache.bytes_in_use() == kv::kv_bytes(shape, kv::kv_format(dtype), t + 1).total());
  }
  CHECK(pool->storage->bytes() ==
        kv::kv_bytes(shape, kv::kv_format(dtype), 20 * block_size).total());
  const kv::PagedCache fork = cache.fork();
  CHECK(fork.bytes_held() == cache.bytes_held());  // shared blocks count for both
}

TEST_CASE("paged cache: moving hands the blocks over, once", "[paged]") {
  const Pool pool = make_pool(4, 2);
  {
    kv::PagedCache a(pool);
    run(a, range_of(0, 3));
    kv::PagedCache b(std::move(a));
    CHECK(tokens_of(b) == range_of(0, 3));
    kv::PagedCache c(pool);
    run(c, range_of(10, 2));
    CHECK(pool->allocator.pool().num_free() == 1);
    c = std::move(b);
    CHECK(pool->allocator.pool().num_free() == 2);
    CHECK(tokens_of(c) == range_of(0, 3));
    kv::PagedCache& same = c;
    c = std::move(same);
    CHECK(tokens_of(c) == range_of(0, 3));
  }
  CHECK(pool->allocator.pool().num_free() == 4);
}

TEST_CASE("paged cache: what moves keeps its number in a trace", "[paged]") {
  struct Last : kv::BlockListener {
    void on_event(const kv::BlockEvent& event) override { sequence = event.sequence; }
    std::int32_t sequence = -1;
  };
  const Pool pool = make_pool(4, 2);
  Last last;
  pool->allocator.set_listener(&last);
  {
    kv::PagedCache first(pool, 1), second(pool, 2);
    kv::PagedCache moved(std::move(first));
    REQUIRE(moved.reserve(1));
    CHECK(last.sequence == 1);
    moved = std::move(second);
    CHECK(last.sequence == 1);  // gave its block back
    REQUIRE(moved.reserve(1));
    CHECK(last.sequence == 2);
  }
  CHECK(last.sequence == 2);
  pool->allocator.set_listener(nullptr);
}

TEST_CASE("paged cache: packed tables have a row a sequence, padded with -1", "[paged]") {
  const kv::BlockTable a{4, {7, 3, 5}, 9}, b{4, {}, 0}, c{4, {0}, 4};
  const std::vector<const kv::BlockTable*> tables = {&a, &b, &c};
  const kv::PackedTables packed = kv::pack_tables(tables);
  CHECK(packed.max_blocks == 3);
  CHECK(packed.ids == std::vector<std::int32_t>{7, 3, 5, -1, -1, -1, 0, -1, -1});
  CHECK(kv::pack_tables({}).ids.empty());
  CHECK(kv::pack_tables({}).max_blocks == 0);
}

TEST_CASE("paged cache: misuse is refused and changes nothing", "[paged]") {
  CHECK_THROWS_AS(make_pool(1, 0), std::invalid_argument);
  CHECK_THROWS_AS(make_pool(-1, 4), std::invalid_argument);
  CHECK_THROWS_AS(make_pool(1, 4, kv::DType::q8_0), std::invalid_argument);
  CHECK_THROWS_AS(kv::make_host_pool({kHeads, 0, 4, 4, kv::DType::f32}), std::invalid_argument);
  CHECK_THROWS_AS(kv::PagedCache(nullptr), std::invalid_argument);
  const Pool pool = make_pool(4, 2);
  kv::PagedCache cache(pool);
  run(cache, range_of(0, 3));
  const std::vector<float> row(static_cast<std::size_t>(kHeads.kv_dim()), 0.0f);
  CHECK_THROWS_AS(cache.append(kLayers, row.data(), row.data(), 1), std::invalid_argument);
  CHECK_THROWS_AS(cache.append(-1, row.data(), row.data(), 1), std::invalid_argument);
  CHECK_THROWS_AS(cache.append(0, row.data(), row.data(), -1), std::invalid_argument);
  CHECK_THROWS_AS(cache.spans(0, kHeads.num_kv_heads), std::invalid_argument);
  CHECK_THROWS_AS(cache.spans(kLayers, 0), std::invalid_argument);
  CHECK_THROWS_AS(cache.truncate(4), std::invalid_argument);
  CHECK_THROWS_AS(cache.commit(1), std::invalid_argument);
  CHECK_THROWS_AS(cache.adopt_prefix(std::vector<kv::TokenId>{1, 2}), std::invalid_argument);
  CHECK(tokens_of(cache) == range_of(0, 3));
  append(cache, 0, {3});
  CHECK_THROWS_AS(cache.commit(1), std::invalid_argument);  // layer 1 is missing
  CHECK_THROWS_AS(cache.fork(), std::invalid_argument);     // in the middle of a pass
  append(cache, 1, {3});
  cache.commit(1);
  CHECK(tokens_of(cache) == range_of(0, 4));

  kv::BlockStorage& storage = *pool->storage;
  const std::vector<kv::Slot> outside = {8}, negative = {-2}, one = {0};
  CHECK_THROWS_AS(storage.write(0, outside, row.data(), row.data()), std::invalid_argument);
  CHECK_THROWS_AS(storage.write(0, negative, row.data(), row.data()), std::invalid_argument);
  CHECK_THROWS_AS(storage.write(kLayers, one, row.data(), row.data()), std::invalid_argument);
  CHECK_THROWS_AS(storage.erase_slots(outside), std::invalid_argument);
  CHECK_THROWS_AS(storage.erase_slots(negative), std::invalid_argument);
  CHECK_THROWS_AS(storage.erase(Ids{4}), std::invalid_argument);
  for (const kv::BlockCopy& copy :
       {kv::BlockCopy{0, 4, 1}, {-1, 0, 1}, {0, 1, 3}, {0, 1, -1}, {1, 1, 1}})
    CHECK_THROWS_AS(storage.copy({&copy, 1}), std::invalid_argument);
  CHECK(tokens_of(cache) == range_of(0, 4));
}
