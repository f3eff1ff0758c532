// Chapter 1, exercise recompute: one step from nothing.
//
// The simplest way to the next token: run the whole text so far, tokens, through the model and
// return the logits [vocab_size] after its last token. forward() needs a state in which the keys
// and values of the pass are kept: a ContiguousCache of the format kv_dtype, with room for the
// text. Nothing is left of it when the step is over. Hand `work` and `math` on: the one counts
// what the pass costs, where it is given, the other computes the linear layers and attention.
//
// Declarations, with shapes and errors: src/kv/generate.hpp, src/kv/cache/contiguous.hpp.
//
// 6 points:
//   2  the logits are those after the whole text
//   1  every token is a row through the model
//   1  nothing is left from an earlier step
//   1  keys and values have the format asked for
//   1  the math handed in is the one that runs
//
// Page:  chapters/01_recompute/README.md#the-mechanism
// Grade: ./kv grade 01_recompute
#include "kv/cache/contiguous.hpp"
#include "kv/exercise.hpp"
#include "kv/generate.hpp"

namespace kv {

std::vector<float> recompute(const Model& model, std::span<const TokenId> tokens,
                             KvDType kv_dtype, Work* work, const Math& math) {
  KV_TODO();
}

}  // namespace kv
