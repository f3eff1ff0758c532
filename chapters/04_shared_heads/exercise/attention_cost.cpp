// Chapter 4, exercise attention_cost: what attention of a decode step reads and computes.
//
// In a decode step the new token's query heads, num_q_heads rows of head_dim elements, meet
// num_tokens cached tokens. Write what attention asks of the device: the operations of q.k and p.v
// (a multiply-add counts as 2, the softmax is left out) and the bytes of K and V that must be read
// when the query heads of a group read their KV head together. No weights.
//
// The cache keeps a vector of head_dim elements for K and one for V of each KV head and token.
// What one vector takes is in the format: element_bytes(head_dim) and, for a quantised cache,
// scale_bytes_of(head_dim).
//
// Declarations, with shapes and errors: src/kv/cost/shared_heads.hpp.
//
// 6 points:
//   2  K and V of each KV head are read once
//   2  each query head meets every key and value
//   1  in 16 bit there are group_size operations a byte
//   1  the scales of a quantised cache are read too
//
// Page:  chapters/04_shared_heads/README.md#the-equations
// Grade: ./kv grade 04_attention_cost
#include "kv/cost/shared_heads.hpp"
#include "kv/exercise.hpp"

namespace kv {

StepCost attention_cost(const HeadConfig& heads, const KvFormat& format,
                        std::int64_t num_tokens) {
  KV_TODO();
}

}  // namespace kv
