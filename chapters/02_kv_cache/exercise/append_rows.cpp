// Chapter 2, exercise append_rows: new keys and values go behind the old ones.
//
// Each layer of a pass hands its new rows of K and V [num_rows, num_kv_heads, head_dim] to the
// cache. Store them behind what the layer holds: length_ committed tokens, which are the same in
// all layers, and the rows that this layer has appended since, appended_[layer]. Count them there.
//
// row(k_, layer, slot) is where a slot of a layer begins, in k_ or in v_; store_rows() writes
// numbers in the cache's format, dtype_. Rows for which there is no room, a negative number of
// rows or a layer that does not exist are refused by require(), before anything is written.
//
// Declarations, with shapes and errors: src/kv/cache/contiguous.hpp, src/kv/cache/store_rows.hpp.
//
// 6 points:
//   2  new rows come behind the committed ones
//   1  rows appended twice in a pass follow each other
//   1  every layer has rows of its own
//   1  rows are stored in the cache's format
//   1  rows that do not fit are refused and not written
//
// Page:  chapters/02_kv_cache/README.md#the-picture
// Grade: ./kv grade 02_append_rows
#include "kv/cache/contiguous.hpp"
#include "kv/cache/store_rows.hpp"
#include "kv/exercise.hpp"

namespace kv {

void ContiguousCache::append(int layer, const float* k_rows, const float* v_rows,
                             std::int64_t num_rows) {
  KV_TODO();
}

}  // namespace kv
