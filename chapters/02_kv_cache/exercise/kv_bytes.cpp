// Chapter 2, exercise kv_bytes: what the cache of a model takes.
//
// head_bytes_per_token(): bytes of one token in one layer, the numbers and their scales apart. A
// vector is K or V of one head; the format says what a vector of so many elements takes.
//
// kv_bytes(): bytes of `batch` sequences of `context` tokens in all layers. What a token takes in
// a layer is kv_bytes_per_token_in_layer(); a layer holds tokens_held(context,
// shape.window(layer), block_size) tokens, which is `context` where it keeps all of them in blocks
// of one.
//
// Throw InputError where a result, or the sum of elements and scales, does not fit 63 bits:
// times() and plus() notice it.
//
// Declarations, with shapes and errors: src/kv/cost/kv_bytes.hpp.
//
// 6 points:
//   1  K and V of every KV head count
//   2  tokens, layers and sequences multiply
//   1  scales are counted apart
//   1  a layer with a window holds its own number of tokens
//   1  what does not fit 63 bits is refused
//
// Page:  chapters/02_kv_cache/README.md#the-equations
// Grade: ./kv grade 02_kv_bytes
#include <optional>

#include "kv/cost/kv_bytes.hpp"
#include "kv/exercise.hpp"

namespace kv {

// A product or a sum; nothing where it does not fit 63 bits.
using Checked = std::optional<std::int64_t>;

Checked times(Checked a, std::int64_t b) {
  std::int64_t product = 0;
  if (!a || __builtin_mul_overflow(*a, b, &product)) return std::nullopt;
  return product;
}

Checked plus(Checked a, Checked b) {
  std::int64_t sum = 0;
  if (!a || !b || __builtin_add_overflow(*a, *b, &sum)) return std::nullopt;
  return sum;
}

KvBytes head_bytes_per_token(const KvShape& shape, const KvFormat& format) {
  KV_TODO();
}

KvBytes kv_bytes(const KvShape& shape, const KvFormat& format, std::int64_t context,
                 std::int64_t batch, std::int64_t block_size) {
  KV_TODO();
}

}  // namespace kv
