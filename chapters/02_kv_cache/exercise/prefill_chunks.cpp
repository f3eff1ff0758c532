// Chapter 2, exercise prefill_chunks: a prompt in chunks.
//
// Run a prompt through the model, at most `chunk` rows in a pass, so that the memory for a pass
// does not grow with the prompt. forward() appends the keys and values of its tokens to the state,
// so the next chunk finds them there. Return the logits [vocab_size] after the last token. Hand
// `work` and `math` on to each pass. A prompt without tokens and a chunk of less than one row are
// refused by require().
//
// Declarations, with shapes and errors: src/kv/generate.hpp.
//
// 6 points:
//   2  the logits are those after the last token
//   1  no pass has more rows than a chunk
//   1  there are no more passes than needed
//   1  every token goes through the model once
//   1  no tokens and no rows are refused
//
// Page:  chapters/02_kv_cache/README.md#the-mechanism
// Grade: ./kv grade 02_prefill_chunks
#include <algorithm>

#include "kv/exercise.hpp"
#include "kv/generate.hpp"

namespace kv {

std::vector<float> prefill(const Model& model, SequenceState& state,
                           std::span<const TokenId> tokens, std::int64_t chunk,
                           Work* work, const Math& math) {
  KV_TODO();
}

}  // namespace kv
