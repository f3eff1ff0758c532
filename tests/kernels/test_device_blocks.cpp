// Blocks on a device: the bytes of the host's blocks after any operations, and sequences that live
// in them.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "attention/device_attention.hpp"
#include "cache/device_blocks.hpp"
#include "chapter_device.hpp"
#include "emulator/emulator.hpp"
#include "kv/cache/host_blocks.hpp"
#include "kv/cache/paged.hpp"
#include "kv/fast/attend.hpp"
#include "support/attention_check.hpp"

namespace {

using kv::Backend;
using kv::BlockCopy;
using kv::BlockId;
using kv::BlockShape;
using kv::DeviceBlocks;
using kv::DType;
using kv::HostBlocks;
using kv::Slot;

BlockShape shape_of(int num_kv_heads, int head_dim, BlockId num_blocks, int block_size,
                    DType dtype = DType::f32, int num_layers = 2) {
  return {{num_kv_heads, num_kv_heads, head_dim}, num_layers, num_blocks, block_size, dtype};
}

std::vector<std::byte> device_bytes(Backend backend, const std::byte* from, std::int64_t count) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(count));
  kv::device(backend).copy_to_host(bytes.data(), from, bytes.size());
  return bytes;
}

// K and V of all blocks in all layers.
void require_same(const DeviceBlocks& actual, const HostBlocks& expected, Backend backend) {
  const BlockShape& shape = expected.shape();
  const std::int64_t bytes = std::int64_t{shape.num_blocks} * shape.block_size * shape.row_bytes();
  for (int l = 0; l < shape.num_layers; ++l) {
    INFO("layer " << l);
    REQUIRE(device_bytes(backend, actual.k(l), bytes) ==
            std::vector<std::byte>(expected.k(l), expected.k(l) + bytes));
    REQUIRE(device_bytes(backend, actual.v(l), bytes) ==
            std::vector<std::byte>(expected.v(l), expected.v(l) + bytes));
  }
}

// Numbers that round, overflow fp16, are subnormal in it, or are infinite.
std::vector<float> awkward_rows(std::int64_t count, std::mt19937& random) {
  const float special[] = {0.0f,      -0.0f, 1e-8f,  6e-5f,  65519.0f,   65520.0f,
                           -65520.0f, 1e30f, -3e38f, 1e-40f, 1.0009765f, INFINITY};
  std::vector<float> rows(static_cast<std::size_t>(count));
  std::normal_distribution<float> normal;
  for (float& x : rows)
    x = random() % 4 == 0 ? special[random() % std::size(special)] : normal(random);
  return rows;
}

// Some of 0 to count - 1 in random order.
std::vector<std::int64_t> some_of(std::int64_t count, std::mt19937& random) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  std::shuffle(all.begin(), all.end(), random);
  all.resize(random() % (all.size() + 1));
  return all;
}

// The same random operation on both.
void one_operation(DeviceBlocks& actual, HostBlocks& expected, std::mt19937& random) {
  const BlockShape& shape = expected.shape();
  const std::int64_t num_slots = std::int64_t{shape.num_blocks} * shape.block_size;
  switch (random() % 4) {
    case 0: {
      std::vector<Slot> slots = some_of(num_slots, random);
      for (Slot& slot : slots)
        if (random() % 5 == 0) slot = -1;
      const std::int64_t count = std::ssize(slots) * shape.heads.kv_dim();
      const auto k = awkward_rows(count, random), v = awkward_rows(count, random);
      const int layer = static_cast<int>(random() % shape.num_layers);
      actual.write(layer, slots, k.data(), v.data());
      expected.write(layer, slots, k.data(), v.data());
      break;
    }
    case 1: {  // from the first half of a permutation to the second
      const auto blocks = some_of(shape.num_blocks, random);
      std::vector<BlockCopy> copies;
      for (std::size_t i = 0; i < blocks.size() / 2; ++i)
        copies.push_back({static_cast<BlockId>(blocks[i]),
                          static_cast<BlockId>(blocks[blocks.size() / 2 + i]),
                          static_cast<std::int32_t>(random() % (shape.block_size + 1))});
      actual.copy(copies);
      expected.copy(copies);
      break;
    }
    case 2: {
      const auto some = some_of(shape.num_blocks, random);
      const std::vector<BlockId> blocks(some.begin(), some.begin() + some.size() / 3);
      actual.erase(blocks);
      expected.erase(blocks);
      break;
    }
    default: {
      std::vector<Slot> slots = some_of(num_slots, random);
      slots.resize(slots.size() / 3);
      if (random() % 2 == 0) std::ranges::sort(slots);  // runs
      actual.erase_slots(slots);
      expected.erase_slots(slots);
    }
  }
}

}  // namespace

TEST_CASE("device blocks: they hold the bytes of host blocks after any operations",
          "[kernels][cache]") {
  const auto dtype = GENERATE(DType::f32, DType::f16, DType::bf16);
  // Rows of a multiple of 16 bytes and others, also of an odd number of elements.
  for (const auto& [num_kv_heads, head_dim] : {std::pair{2, 8}, {1, 3}, {3, 2}, {1, 32}})
    for (const int block_size : {1, 3, 4}) {
      INFO(num_kv_heads << " heads of " << head_dim << ", blocks of " << block_size);
      const BlockShape shape = shape_of(num_kv_heads, head_dim, 7, block_size, dtype);
      DeviceBlocks actual(kv::device(Backend::emulated), shape);
      HostBlocks expected(shape);
      require_same(actual, expected, Backend::emulated);  // NaN from the beginning
      CHECK(actual.bytes() == expected.bytes());
      std::mt19937 random(1);
      for (int operation = 0; operation < 24; ++operation) {
        one_operation(actual, expected, random);
        require_same(actual, expected, Backend::emulated);
      }
    }
}

TEST_CASE("device blocks: no fault is found in any order of threads", "[kernels][cache]") {
  using kv::emulator::Order;
  const auto dtype = GENERATE(DType::f32, DType::f16, DType::bf16);
  for (const auto order : {Order::forward, Order::reverse, Order::random}) {
    kv::emulator::options().order = order;
    for (const int head_dim : {3, 64}) {
      const BlockShape shape = shape_of(2, head_dim, 5, 4, dtype);
      DeviceBlocks actual(kv::device(Backend::checked), shape);
      HostBlocks expected(shape);
      std::mt19937 random(2);
      for (int operation = 0; operation < 16; ++operation) one_operation(actual, expected, random);
      require_same(actual, expected, Backend::checked);
    }
  }
  kv::emulator::options() = {};
}

TEST_CASE("device blocks: padding writes nowhere, and block 0 is a block like any other",
          "[kernels][cache]") {
  const BlockShape shape = shape_of(1, 8, 2, 2, DType::f32, 1);
  DeviceBlocks blocks(kv::device(Backend::checked), shape);
  HostBlocks expected(shape);
  // A batch of 2 padded to 4; the first row goes to block 0.
  std::vector<float> k(4 * 8), v(4 * 8);
  std::iota(k.begin(), k.end(), 1.0f);
  std::iota(v.begin(), v.end(), 101.0f);
  const std::vector<Slot> slots = {0, 3, -1, -1};
  blocks.write(0, slots, k.data(), v.data());
  expected.write(0, slots, k.data(), v.data());
  require_same(blocks, expected, Backend::checked);
  const auto bytes = device_bytes(Backend::checked, blocks.k(0), 4 * 8 * 4);
  float first[8];
  std::memcpy(first, bytes.data(), sizeof(first));
  for (int d = 0; d < 8; ++d) CHECK(first[d] == 1.0f + static_cast<float>(d));
  // Nothing but padding, and nothing at all.
  blocks.write(0, std::vector<Slot>{-1, -1}, k.data(), v.data());
  blocks.write(0, {}, k.data(), v.data());
  require_same(blocks, expected, Backend::checked);
}

TEST_CASE("device blocks: a copy changes its target alone, in all layers and both planes",
          "[kernels][cache]") {
  // Block 3 to 5 of 8, every element its own number; then 3 tokens only.
  for (const int num_tokens : {4, 3, 0}) {
    const BlockShape shape = shape_of(2, 4, 8, 4, DType::f32, 3);
    DeviceBlocks blocks(kv::device(Backend::checked), shape);
    const std::int64_t per_block = 4 * 8, count = 8 * per_block;
    std::vector<Slot> slots(32);
    std::iota(slots.begin(), slots.end(), 0);
    for (int l = 0; l < 3; ++l) {
      std::vector<float> k(count), v(count);
      std::iota(k.begin(), k.end(), static_cast<float>(2 * l * count));
      std::iota(v.begin(), v.end(), static_cast<float>((2 * l + 1) * count));
      blocks.write(l, slots, k.data(), v.data());
    }
    blocks.copy(std::vector<BlockCopy>{{3, 5, num_tokens}});
    for (int plane = 0; plane < 6; ++plane) {
      const auto bytes = device_bytes(
          Backend::checked, plane % 2 == 0 ? blocks.k(plane / 2) : blocks.v(plane / 2), count * 4);
      for (std::int64_t i = 0; i < count; ++i) {
        float actual;
        std::memcpy(&actual, bytes.data() + 4 * i, 4);
        const bool is_copy = i / per_block == 5 && i % per_block < num_tokens * 8;
        REQUIRE(actual == static_cast<float>(plane * count + (is_copy ? i - 2 * per_block : i)));
      }
    }
  }
}

TEST_CASE("device blocks: one launch serves all layers and copies", "[kernels][cache]") {
  const BlockShape shape = shape_of(2, 8, 8, 4, DType::f16, 5);
  DeviceBlocks blocks(kv::device(Backend::checked), shape);
  kv::emulator::reset_counters();
  blocks.copy(std::vector<BlockCopy>{{0, 1, 4}, {2, 3, 1}, {0, 4, 2}});
  const auto counters = kv::emulator::counters_by_kernel();
  REQUIRE(counters.size() == 1);
  CHECK(counters.begin()->second.launches == 1);
  // 7 tokens in 10 arrays; no byte more.
  CHECK(counters.begin()->second.of(kv::emulator::Traffic::global_store).bytes ==
        7 * 10 * static_cast<std::uint64_t>(shape.row_bytes()));
  kv::emulator::reset_counters();
  blocks.copy({});
  CHECK(kv::emulator::counters_by_kernel().empty());
}

TEST_CASE("device blocks: rows are read and written once, 16 bytes at a time", "[kernels][cache]") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const BlockShape shape = shape_of(2, 64, 4, 4, dtype, 1);
    DeviceBlocks blocks(kv::device(Backend::checked), shape);
    const std::vector<float> rows(5 * 128, 1.0f);
    kv::emulator::reset_counters();
    blocks.write(0, std::vector<Slot>{3, 0, -1, 9, 15}, rows.data(), rows.data());
    const auto counters = kv::emulator::counters_by_kernel();
    REQUIRE(counters.size() == 1);
    const kv::emulator::Counters& c = counters.begin()->second;
    CHECK(c.launches == 1);
    CHECK(32 * c.of(kv::emulator::Traffic::global_store).units ==
          static_cast<std::uint64_t>(2 * 4 * shape.row_bytes()));
  }
}

TEST_CASE("device blocks: misuse is refused and changes nothing", "[kernels][cache]") {
  const BlockShape shape = shape_of(1, 8, 3, 2);
  DeviceBlocks blocks(kv::device(Backend::emulated), shape);
  HostBlocks expected(shape);
  const std::vector<float> rows(4 * 8, 1.0f);
  const auto write = [&](std::vector<Slot> slots, int layer = 0) {
    blocks.write(layer, slots, rows.data(), rows.data());
  };
  for (const std::vector<Slot>& slots : {std::vector<Slot>{6}, {-2}, {0, 6}, {1, 0, 1}})
    CHECK_THROWS_AS(write(slots), std::invalid_argument);
  CHECK_THROWS_AS(write({0}, 2), std::invalid_argument);
  CHECK_THROWS_AS(write({0}, -1), std::invalid_argument);
  const auto copy = [&](std::vector<BlockCopy> copies) { blocks.copy(copies); };
  for (const std::vector<BlockCopy>& copies : {std::vector<BlockCopy>{{0, 3, 1}},
                                               {{-1, 1, 1}},
                                               {{0, 1, 3}},
                                               {{0, 1, -1}},
                                               {{0, 0, 1}},
                                               {{0, 1, 1}, {2, 1, 1}},
                                               {{0, 1, 1}, {1, 2, 1}}})
    CHECK_THROWS_AS(copy(copies), std::invalid_argument);
  CHECK_THROWS_AS(blocks.erase(std::vector<BlockId>{3}), std::invalid_argument);
  CHECK_THROWS_AS(blocks.erase_slots(std::vector<Slot>{-1}), std::invalid_argument);
  CHECK_THROWS_AS(blocks.erase_slots(std::vector<Slot>{6}), std::invalid_argument);
  CHECK_THROWS_AS(blocks.k(2), std::invalid_argument);
  require_same(blocks, expected, Backend::emulated);
  CHECK_THROWS_AS(DeviceBlocks(kv::device(Backend::emulated), shape_of(1, 8, 3, 0)),
                  std::invalid_argument);
  CHECK_THROWS_AS(DeviceBlocks(kv::device(Backend::emulated), shape_of(1, 32, 3, 2, DType::q8_0)),
                  std::invalid_argument);
}

// --- sequences in them -------------------------------------------------------------------------

namespace {

// A pool on the host and one on a device, whose sequences do the same.
struct Pools {
  BlockShape shape;
  std::shared_ptr<kv::PagedPool> host, device;

  explicit Pools(const BlockShape& shape_in)
      : shape(shape_in),
        host(kv::make_host_pool(shape)),
        device(kv::make_device_pool(kv::device(Backend::emulated), shape)) {}

  void require_equal() const {
    require_same(dynamic_cast<const DeviceBlocks&>(*device->storage),
                 dynamic_cast<const HostBlocks&>(*host->storage), Backend::emulated);
    REQUIRE(device->num_copies == host->num_copies);
  }
};

struct Twin {
  kv::PagedCache host, device;
  explicit Twin(const Pools& pools) : host(pools.host), device(pools.device) {}
  Twin(kv::PagedCache a, kv::PagedCache b) : host(std::move(a)), device(std::move(b)) {}

  bool append(int count, std::mt19937& random) {
    const kv::BlockShape& shape = host.pool().storage->shape();
    const bool fits = host.reserve(count);
    REQUIRE(device.reserve(count) == fits);
    if (!fits) return false;
    for (int l = 0; l < shape.num_layers; ++l) {
      const auto k = awkward_rows(count * shape.heads.kv_dim(), random);
      const auto v = awkward_rows(count * shape.heads.kv_dim(), random);
      host.append(l, k.data(), v.data(), count);
      device.append(l, k.data(), v.data(), count);
    }
    host.commit(count);
    device.commit(count);
    return true;
  }
};

}  // namespace

TEST_CASE("device blocks: sequences grow, fork, shrink and end as on the host",
          "[kernels][cache]") {
  const auto dtype = GENERATE(DType::f32, DType::bf16);
  for (const int block_size : {1, 4, 16}) {
    INFO("blocks of " << block_size);
    const Pools pools(shape_of(2, 8, 12, block_size, dtype));
    std::mt19937 random(3);
    std::vector<Twin> twins;
    for (int operation = 0; operation < 60; ++operation) {
      const unsigned kind = random() % 6;
      if (twins.empty() || kind == 0) {
        twins.emplace_back(pools);
      } else {
        Twin& twin = twins[random() % twins.size()];
        if (kind == 1) {
          Twin child(twin.host.fork(), twin.device.fork());
          twins.push_back(std::move(child));
        } else if (kind == 2) {
          const auto left = static_cast<std::int64_t>(random() % (twin.host.length() + 1));
          twin.host.truncate(left);
          twin.device.truncate(left);
        } else if (kind == 3 && twins.size() > 3) {
          std::swap(twin, twins.back());
          twins.pop_back();
        } else {
          twin.append(1 + static_cast<int>(random() % 7), random);
        }
      }
      pools.require_equal();
    }
    // A block of one token is never filled in part.
    CHECK((pools.host->num_copies > 0) == (block_size > 1));
    twins.clear();
    pools.require_equal();  // all NaN again
    CHECK(pools.device->allocator.pool().num_free() == 12);
  }
}

TEST_CASE("device blocks: attention over sequences of one pool is that of the host",
          "[kernels][cache]") {
  const auto dtype = GENERATE(DType::f32, DType::f16, DType::bf16);
  for (const int block_size : {1, 16}) {
    const kv::HeadConfig heads = {4, 2, 32};
    BlockShape shape = shape_of(2, 32, 40, block_size, dtype);
    shape.heads = heads;
    const Pools pools(shape);
    kv::DeviceAttention attention(kv::device(Backend::emulated), heads, dtype, kv::kPagedSteps);
    std::mt19937 random(4);
    std::normal_distribution<float> normal;
    std::vector<Twin> twins;
    // Decode, a prompt behind a cached beginning, a first prompt.
    const std::pair<int, int> lengths[] = {{9, 1}, {5, 4}, {0, 7}, {3, 1}};
    const auto rows_of = [&](int count, int dim) {
      std::vector<float> rows(static_cast<std::size_t>(count * dim));
      for (float& x : rows) x = normal(random);
      return rows;
    };
    const auto append = [&](Twin& twin, int count) {
      for (int l = 0; l < 2; ++l) {
        const auto k = rows_of(count, 64), v = rows_of(count, 64);
        twin.host.append(l, k.data(), v.data(), count);
        twin.device.append(l, k.data(), v.data(), count);
      }
    };
    for (const auto& [cached, added] : lengths) {
      twins.emplace_back(pools);
      append(twins.back(), cached);
      twins.back().host.commit(cached);
      twins.back().device.commit(cached);
      append(twins.back(), added);
    }
    for (int layer = 0; layer < 2; ++layer) {
      std::vector<std::vector<float>> q, expected, actual, expected_lse, actual_lse;
      for (const auto& [cached, added] : lengths) {
        q.push_back(rows_of(added, heads.q_dim()));
        expected.emplace_back(added * heads.q_dim());
        actual.emplace_back(added * heads.q_dim());
        expected_lse.emplace_back(added * heads.num_q_heads);
        actual_lse.emplace_back(added * heads.num_q_heads);
      }
      std::vector<kv::AttentionItem> host_items, device_items;
      for (std::size_t b = 0; b < twins.size(); ++b) {
        const int added = lengths[b].second;
        host_items.push_back({q[b].data(), heads.q_dim(), added, &twins[b].host, expected[b].data(),
                              expected_lse[b].data()});
        device_items.push_back({q[b].data(), heads.q_dim(), added, &twins[b].device,
                                actual[b].data(), actual_lse[b].data()});
      }
      const float scale = 0.2f;
      kv::fast::attend(host_items, heads, layer, scale);
      attention(device_items, heads, layer, scale);
      // Decode rounds q and the weights in 16 bit.
      const double loose = dtype == DType::f32 ? 1e-5 : dtype == DType::f16 ? 0.02 : 0.12;
      for (std::size_t b = 0; b < twins.size(); ++b) {
        INFO("sequence " << b << ", layer " << layer);
        for (std::size_t i = 0; i < expected[b].size(); ++i)
          REQUIRE(std::fabs(actual[b][i] - expected[b][i]) <= loose);
        for (std::size_t i = 0; i < expected_lse[b].size(); ++i)
          REQUIRE(std::fabs(actual_lse[b][i] - expected_lse[b][i]) <= loose);
      }
    }
    CHECK(attention.kv_bytes_read() > 0);
  }
}

TEST_CASE("device blocks: attention refuses states that it cannot read", "[kernels][cache]") {
  const kv::HeadConfig heads = {2, 2, 32};
  const Pools pools(shape_of(2, 32, 4, 4)), others(shape_of(2, 32, 4, 4));
  kv::PagedCache on_host(pools.host), on_device(pools.device), elsewhere(others.device);
  std::vector<float> q(64), out(64), rows(64, 1.0f);
  for (kv::PagedCache* cache : {&on_host, &on_device, &elsewhere})
    for (int l = 0; l < 2; ++l) cache->append(l, rows.data(), rows.data(), 1);
  const auto item = [&](const kv::SequenceState& state) {
    return kv::AttentionItem{q.data(), 64, 1, &state, out.data(), nullptr};
  };
  kv::DeviceAttention paged(kv::device(Backend::emulated), heads, DType::f32, kv::kPagedSteps);
  kv::DeviceAttention contiguous(kv::device(Backend::emulated), heads, DType::f32, {});
  kv::DeviceAttention in_16_bit(kv::device(Backend::emulated), heads, DType::f16, kv::kPagedSteps);
  kv::DeviceAttention checked(kv::device(Backend::checked), heads, DType::f32, kv::kPagedSteps);
  const auto run = [&](kv::DeviceAttention& attention, std::vector<kv::AttentionItem> items) {
    attention(items, heads, 0, 1.0f);
  };
  CHECK_NOTHROW(run(paged, {item(on_device)}));
  CHECK_THROWS_AS(run(paged, {item(on_host)}), std::invalid_argument);
  CHECK_THROWS_AS(run(paged, {item(on_device), item(elsewhere)}), std::invalid_argument);
  CHECK_THROWS_AS(run(contiguous, {item(on_device)}), std::invalid_argument);
  CHECK_THROWS_AS(run(in_16_bit, {item(on_device)}), std::invalid_argument);
  CHECK_THROWS_AS(run(checked, {item(on_device)}), std::invalid_argument);
  CHECK_THROWS_AS(kv::DeviceAttention(kv::device(Backend::emulated), heads, DType::f32,
                                      {kv::AttentionStep::tiled, kv::AttentionStep::paged}),
                  std::invalid_argument);
}

TEST_CASE("device blocks: a chapter makes pools where its kernels run", "[kernels][cache]") {
  kv::ModelConfig config;
  config.num_layers = 2;
  config.heads = {2, 1, 32};
  kv::ChapterOptions options;
  options.device = "emulated";
  options.kv_dtype = DType::bf16;
  const kv::ChapterDevice emulated(options, kv::KernelOptions{}.paged(), config);
  const auto pool = emulated.make_pool(5, 16);
  CHECK(dynamic_cast<const DeviceBlocks*>(pool->storage.get()) != nullptr);
  CHECK(pool->storage->bytes() == 5LL * 16 * 2 * 2 * 32 * 2);
  CHECK(emulated.product_dtype() == DType::bf16);
  CHECK(emulated.description().find("paged") != std::string::npos);
  CHECK_THROWS_AS(emulated.make_pool(5, 12), kv::InputError);
  CHECK_THROWS_AS(emulated.make_pool(std::int64_t{1} << 31, 16), kv::InputError);
  options.device = "cpu";
  const kv::ChapterDevice cpu(options, kv::KernelOptions{}.paged(), config);
  CHECK(dynamic_cast<const HostBlocks*>(cpu.make_pool(5, 12)->storage.get()) != nullptr);
}
