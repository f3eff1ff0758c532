// Exercise 05_paged_lookup: PagedArrays::kv_index().
#include <cstdint>
#include <utility>

#include "course/attention_support.hpp"

namespace {

using kv_course::AttentionProblem;
using kv_course::pick;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// K and V of a problem in blocks in random order. Places that hold no token are NaN.
struct Blocks {
  Blocks(const AttentionProblem& p, std::mt19937_64& random, int block_size_in)
      : block_size(block_size_in) {
    const auto num_blocks_of = [&](const kv::SequenceRows& rows) {
      return (rows.kv_len + block_size - 1) / block_size;
    };
    std::int64_t num_used = 0;
    for (const kv::SequenceRows& rows : p.sequences) {
      num_used += num_blocks_of(rows);
      max_blocks = std::max<std::int64_t>(max_blocks, num_blocks_of(rows) + 1);
    }
    num_blocks = num_used + 2;  // two belong to nobody
    std::vector<std::int32_t> free;
    for (std::int32_t block = 0; block < num_blocks; ++block) free.push_back(block);

    const std::int64_t row_size = p.shape.heads.kv_dim();
    k.assign(static_cast<std::size_t>(num_blocks * block_size * row_size), kNan);
    v = k;
    for (const kv::SequenceRows& rows : p.sequences) {
      for (std::int64_t i = 0; i < max_blocks; ++i) {
        if (i >= num_blocks_of(rows)) {
          ids.push_back(-1);
          continue;
        }
        const std::int64_t at = pick(random, 0, std::ssize(free) - 1);
        const std::int64_t block = free[static_cast<std::size_t>(at)];
        ids.push_back(static_cast<std::int32_t>(block));
        free.erase(free.begin() + at);
        const std::int64_t first = i * block_size;
        const std::int64_t count = std::min<std::int64_t>(block_size, rows.kv_len - first);
        const std::int64_t from = (rows.kv_begin + first) * row_size;
        const std::int64_t to = block * block_size * row_size;
        std::copy_n(p.k.begin() + from, count * row_size, k.begin() + to);
        std::copy_n(p.v.begin() + from, count * row_size, v.begin() + to);
      }
    }
  }

  int block_size = 0;
  std::int64_t max_blocks = 0, num_blocks = 0;
  std::vector<std::int32_t> ids;  // [num_sequences, max_blocks]
  std::vector<float> k, v;        // [num_blocks, block_size, num_kv_heads, head_dim]
};

// Attention over the blocks, compared with attention over the rows in their order.
// far: heads by which K and V claim to begin before their memory; the ids are that much larger
void check(const AttentionProblem& p, const Blocks& blocks, std::int64_t far = 0) {
  const kv::HeadConfig& heads = p.shape.heads;
  const std::int64_t added = far / heads.num_kv_heads / blocks.block_size;
  std::vector<std::int32_t> ids = blocks.ids;
  for (std::int32_t& id : ids)
    if (id >= 0) id += static_cast<std::int32_t>(added);
  const auto q = kv_course::on_device(p.q), k = kv_course::on_device(blocks.k),
             v = kv_course::on_device(blocks.v);
  kv::DeviceBuffer<float> out(kv_course::device(), p.q.size());
  kv::DeviceBuffer<float> lse(kv_course::device(),
                              p.q.size() / static_cast<std::size_t>(heads.head_dim));
  out.fill_bytes(0xff);
  lse.fill_bytes(0xff);
  const auto begin = [&](const kv::DeviceBuffer<float>& buffer) {
    return reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(buffer.data()) -
                                         static_cast<std::uintptr_t>(far * heads.head_dim) *
                                             sizeof(float));
  };
  const kv::AttentionPlan plan(
      kv_course::device(), p.shape, p.sequences,
      {ids, blocks.max_blocks, blocks.block_size, blocks.num_blocks + added});
  kv_course::run_checked([&] { plan.run(q.data(), begin(k), begin(v), out.data(), lse.data()); });
  kv_course::expect_attention(p, {out.to_host(), lse.to_host()});
}

}  // namespace

TEST_CASE("a key is found through the block table") {
  auto random = kv_course::random_numbers(1);
  const AttentionProblem p = kv_course::random_attention(random, {{1, pick(random, 50, 70)}}, true);
  check(p, Blocks(p, random, 16));
}

TEST_CASE("each sequence has its own row of the table") {
  auto random = kv_course::random_numbers(2);
  const AttentionProblem p = kv_course::random_attention(
      random, {{1, pick(random, 20, 40)}, {1, pick(random, 20, 40)}, {pick(random, 2, 4), 30}},
      true);
  check(p, Blocks(p, random, 16));
}

TEST_CASE("blocks of any power of two are read") {
  auto random = kv_course::random_numbers(3);
  const AttentionProblem p = kv_course::random_attention(random, {{1, pick(random, 33, 50)}}, true);
  for (const int block_size : {1, 8, 32}) {
    INFO("blocks of " << block_size);
    check(p, Blocks(p, random, block_size));
  }
}

TEST_CASE("blocks far behind the first are found") {
  auto random = kv_course::random_numbers(4);
  const AttentionProblem p = kv_course::random_attention(random, {{1, pick(random, 20, 40)}}, true);
  // Only the blocks of the table exist, more than 2^32 heads behind where K and V claim to begin.
  check(p, Blocks(p, random, 16), (std::int64_t{1} << 32) + 32 * pick(random, 1, 1000));
}
