// Chapter 1, exercise causal_mask: how many keys a query row sees.
//
// A token looks at itself and at what was before it, never ahead. A pass has q_len query rows, and
// they are the last q_len of the kv_len tokens whose keys there are: in chapter 1 all of them,
// later only the newest ones. Return how many keys query row t sees; they are the first ones of
// the sequence. There may be fewer keys than query rows: the first rows then see none.
//
// Declarations, with shapes and errors: src/kv/attention/causal.hpp.
//
// 5 points:
//   1  the last row sees every key
//   1  each row sees one key more than the row before it
//   2  a text in two passes sees what it sees in one
//   1  rows before the first key see none
//
// Page:  chapters/01_recompute/README.md#attention-of-one-row
// Grade: ./kv grade 01_causal_mask
#include <algorithm>

#include "kv/attention/causal.hpp"
#include "kv/exercise.hpp"

namespace kv {

std::int64_t num_visible_keys(std::int64_t t, std::int64_t q_len, std::int64_t kv_len) {
  KV_TODO();
}

}  // namespace kv
