// A pool so small that its exported arrays are a few hundred bytes: for the seeds of fuzz_npz.
#pragma once

#include <memory>

#include "kv/cache/paged.hpp"

namespace kv_test {

/// One layer, one KV head of 2 elements, four blocks of 4 tokens, in the memory of the host.
inline std::shared_ptr<kv::PagedPool> small_pool(kv::KvDType dtype) {
  const kv::HeadConfig heads = {.num_q_heads = 1, .num_kv_heads = 1, .head_dim = 2};
  return kv::make_host_pool(
      {.heads = heads, .num_layers = 1, .num_blocks = 4, .block_size = 4, .dtype = dtype});
}

}  // namespace kv_test
