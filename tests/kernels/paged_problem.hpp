// The same batch as attention_problem.hpp with its keys in blocks of a shared pool.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "attention_problem.hpp"

namespace kv_test {

/// K and V in blocks, and the tables that find them. Every place that belongs to no token is NaN;
/// what stands in a table behind a sequence's last block is no id.
struct PagedProblem {
  int block_size = 0;
  std::int64_t num_blocks = 0;
  std::int64_t max_blocks = 0;
  std::vector<std::int32_t> block_ids;  ///< [num_sequences, max_blocks]
  std::vector<float> k, v;              ///< [num_blocks, block_size, num_kv_heads, head_dim]

  kv::BatchTables tables() const { return {block_ids, max_blocks, block_size, num_blocks}; }
};

/// Puts the keys of a problem into blocks in random order. Some blocks belong to nobody; block 0 is
/// a block like any other.
inline PagedProblem in_blocks(const AttentionProblem& p, int block_size, unsigned seed = 1) {
  PagedProblem paged;
  paged.block_size = block_size;
  std::int64_t num_used = 0;
  for (const kv::SequenceRows& rows : p.sequences) {
    const std::int64_t needed = (rows.kv_len + block_size - 1) / block_size;
    num_used += needed;
    paged.max_blocks = std::max(paged.max_blocks, needed);
  }
  paged.max_blocks += 2;  // no table is full
  paged.num_blocks = num_used + 3;
  std::vector<std::int32_t> free(paged.num_blocks);
  for (std::int64_t i = 0; i < paged.num_blocks; ++i) free[i] = static_cast<std::int32_t>(i);
  std::mt19937 random(seed);
  std::shuffle(free.begin(), free.end(), random);

  const std::int64_t row = p.shape.heads.kv_dim();
  paged.k.assign(paged.num_blocks * block_size * row, std::numeric_limits<float>::quiet_NaN());
  paged.v = paged.k;
  for (std::size_t b = 0; b < p.sequences.size(); ++b) {
    const kv::SequenceRows& rows = p.sequences[b];
    const std::int64_t needed = (rows.kv_len + block_size - 1) / block_size;
    for (std::int64_t i = 0; i < paged.max_blocks; ++i) {
      if (i >= needed) {
        paged.block_ids.push_back(i % 2 == 0 ? -1 : 1 << 30);  // padding, and what a table grew by
        continue;
      }
      paged.block_ids.push_back(free.back());
      free.pop_back();
    }
    for (std::int64_t j = 0; j < rows.kv_len; ++j) {
      const std::int64_t block = paged.block_ids[b * paged.max_blocks + j / block_size];
      const std::int64_t to = (block * block_size + j % block_size) * row;
      const std::int64_t from = (rows.kv_begin + j) * row;
      std::copy_n(p.k.begin() + from, row, paged.k.begin() + to);
      std::copy_n(p.v.begin() + from, row, paged.v.begin() + to);
    }
  }
  return paged;
}

/// Runs step 7 on a backend; outputs start as NaN.
inline AttentionResult run_paged(const AttentionProblem& p, const PagedProblem& paged,
                                 kv::Backend backend, bool want_lse = true,
                                 const kv::SplitOptions& split = {}) {
  kv::Device& device = kv::device(backend);
  const kv::AttentionPlan plan(device, p.shape, p.sequences, paged.tables(), split);
  const kv::DeviceBuffer<float> q(device, std::span<const float>(p.q));
  const StoredRows k(device, paged.k, p.shape.kv_dtype);
  const StoredRows v(device, paged.v, p.shape.kv_dtype);
  kv::DeviceBuffer<float> out(device, p.q.size());
  kv::DeviceBuffer<float> lse(device, p.q.size() / p.shape.heads.head_dim);
  out.fill_bytes(0xff);
  lse.fill_bytes(0xff);
  plan.run(q.data(), k.data(), v.data(), out.data(), want_lse ? lse.data() : nullptr);
  device.synchronize();
  return {out.to_host(), lse.to_host()};
}

/// Puts the keys into blocks first.
inline AttentionResult run_in_blocks(const AttentionProblem& p, int block_size, kv::Backend backend,
                                     bool want_lse = true, const kv::SplitOptions& split = {}) {
  return run_paged(p, in_blocks(p, block_size), backend, want_lse, split);
}

}  // namespace kv_test
