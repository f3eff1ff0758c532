// Chapter 4, exercise head_mapping: which KV head a query head reads.
//
// A model has num_q_heads query heads and num_kv_heads KV heads; the first number is a multiple of
// the second. Each KV head is shared by a group of query heads, and the heads of a group are
// neighbours. Write how many query heads a group has, and which KV head query head h reads (both
// count from 0).
//
// Declarations, with shapes and errors: src/kv/config.hpp.
//
// 5 points:
//   2  the query heads of a group are neighbours
//   1  every KV head serves equally many query heads
//   1  without sharing each query head reads its own KV head
//   1  a single KV head serves all query heads
//
// Page:  chapters/04_shared_heads/README.md#the-picture
// Grade: ./kv grade 04_head_mapping
#include "kv/config.hpp"
#include "kv/exercise.hpp"

namespace kv {

int HeadConfig::group_size() const {
  KV_TODO();
}

int HeadConfig::kv_head(int h) const {
  KV_TODO();
}

}  // namespace kv
