// Chapter 2, exercise decode_step: only the newest token goes through the model.
//
// The step for which there is a cache. `tokens` is the sequence so far; `state` holds the keys and
// values of all of them but the last. Return the logits [vocab_size] after the last token, with
// one row through the model. Hand `work` and `math` on. A state that holds another number of
// tokens is refused by require().
//
// Declarations, with shapes and errors: src/kv/generate.hpp.
//
// 7 points:
//   2  the logits are those of a recomputation
//   2  exactly one row goes through the model
//   1  the state holds one token more
//   1  the math handed in is the one that runs
//   1  a state that holds other tokens is refused
//
// Page:  chapters/02_kv_cache/README.md#the-mechanism
// Grade: ./kv grade 02_decode_step
#include "kv/exercise.hpp"
#include "kv/generate.hpp"

namespace kv {

std::vector<float> decode_step(const Model& model, SequenceState& state,
                               std::span<const TokenId> tokens, Work* work,
                               const Math& math) {
  KV_TODO();
}

}  // namespace kv
