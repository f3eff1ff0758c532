// The loop that byte-level BPE and SentencePiece share: merge neighbours, best pair first.
//
// A heap of candidate pairs instead of a new search after each merge: n symbols take O(n log n)
// time, also when all of them are equal. A merge makes older candidates stale; they are recognised
// when they come up and dropped, which is cheaper than finding them in the heap.
#pragma once

#include <cstddef>
#include <optional>
#include <queue>
#include <vector>

#include "kv/tensor.hpp"

namespace kv {

/// A stretch of the text: element of a doubly linked list that lives in a vector.
struct MergeSymbol {
  std::size_t begin = 0;      ///< byte position in the text
  std::size_t num_bytes = 0;  ///< 0: merged into its left neighbour
  TokenId id = -1;            ///< -1: the vocabulary has no such token
  int previous = -1;          ///< index of the left neighbour, or -1
  int next = -1;              ///< index of the right neighbour, or -1
};

/// What two neighbours become. The lowest rank merges first, the leftmost pair on a tie.
struct MergeResult {
  double rank = 0;  ///< not NaN
  TokenId id = -1;  ///< the merged token
};

/// Appends token `id`, the num_bytes bytes of the text from `begin` on, at the end of the list.
inline void append_symbol(std::vector<MergeSymbol>& symbols, std::size_t begin,
                          std::size_t num_bytes, TokenId id) {
  const int index = static_cast<int>(symbols.size());
  if (index > 0) symbols.back().next = index;
  symbols.push_back({begin, num_bytes, id, index - 1, -1});
}

/// Merges until no pair can be merged. The list then starts at index 0.
///
/// \param symbols neighbours in text order
/// \param rule    (left, right) -> std::optional<MergeResult>, depending on the two symbols only
template <class Rule>
void merge_symbols(std::vector<MergeSymbol>& symbols, const Rule& rule) {
  struct Candidate {
    double rank;
    int left, right;
    std::size_t num_bytes;  // of both: differs from now when either has been merged since
    TokenId id;
    bool operator<(const Candidate& other) const {  // the heap's top is its largest element
      return rank != other.rank ? rank > other.rank : left > other.left;
    }
  };
  std::priority_queue<Candidate> heap;
  const auto at = [&](int index) -> MergeSymbol& {
    return symbols[static_cast<std::size_t>(index)];
  };
  const auto consider = [&](int left, int right) {
    if (left < 0 || right < 0) return;
    const std::optional<MergeResult> result = rule(at(left), at(right));
    if (result)
      heap.push({result->rank, left, right, at(left).num_bytes + at(right).num_bytes, result->id});
  };

  for (int i = 0; i + 1 < static_cast<int>(symbols.size()); ++i) consider(i, i + 1);
  while (!heap.empty()) {
    const Candidate best = heap.top();
    heap.pop();
    MergeSymbol& left = at(best.left);
    MergeSymbol& right = at(best.right);
    const bool stale = left.num_bytes == 0 || right.num_bytes == 0 ||
                       left.num_bytes + right.num_bytes != best.num_bytes;
    if (stale) continue;
    left.num_bytes = best.num_bytes;
    left.id = best.id;
    left.next = right.next;
    right.num_bytes = 0;
    if (left.next >= 0) at(left.next).previous = best.left;
    consider(left.previous, best.left);
    consider(best.left, left.next);
  }
}

}  // namespace kv
