// What the GPU benchmark runs: which step on which shapes, what it must move and compute, and what
// the course hopes for. Nothing here runs anything.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "attention/attention.hpp"

namespace kv_bench {

/// What a case should reach. Goals are for a GPU like the H200; they are printed, never asserted.
struct Goal {
  enum class Kind {
    none,
    tflops,         ///< value: 10^12 operations a second
    share_of_copy,  ///< value: bytes a second as a share of the copy's
    share_of_case,  ///< value: bytes a second as a share of the case `reference`
  };
  Kind kind = Kind::none;
  double value = 0.0;
  std::string reference = {};  ///< name of a case that comes earlier in the table

  /// E.g. "300 TFLOP/s", "90 % of copy"; empty for none.
  std::string text() const;
};

/// One step of the ladder on one batch. K and V rows of the sequences follow each other.
struct Case {
  std::string name;
  kv::AttentionStep step = kv::AttentionStep::tiled;
  kv::AttentionShape shape;
  std::vector<kv::SequenceRows> sequences;
  Goal goal;

  bool is_decode() const;   ///< one query row a sequence: limited by memory, else by arithmetic
  bool is_uniform() const;  ///< all sequences have the same lengths
  std::int64_t num_q_rows() const;
  std::int64_t num_kv_rows() const;

  /// Bytes that any kernel must move: q, K, V and out, each once.
  std::int64_t bytes() const;
  /// Operations: q.k and p.v of the keys that are seen, a multiply-add counted as 2.
  double flops() const;
};

/// The sizes of the table: the same cases for a GPU and, tiny, to try the program without one.
struct Scale {
  int prefill_batch, prefill_heads, prefill_tokens;
  int decode_batch, decode_heads, decode_keys;
  int long_keys;   ///< of the one long sequence; the short ones of a ragged batch have 1/128 of it
  int num_ragged;  ///< sequences of the ragged batch

  /// Over 1 GB of K and V for each case of decode: no GPU's cache keeps a part that matters.
  static Scale gpu() { return {4, 16, 4096, 16, 32, 8192, 131072, 32}; }
  static Scale tiny() { return {2, 4, 24, 2, 8, 40, 256, 5}; }
};

/// All cases, in the order of the table. \param only_with_goal leaves the others out
std::vector<Case> cases(const Scale& scale, bool only_with_goal = false);

}  // namespace kv_bench
