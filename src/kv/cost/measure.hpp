// The two limits of this machine, one round at a time: whoever compares something with them takes
// turns, because other programs may slow the machine down at any moment.
#pragma once

#include <array>
#include <cstdint>

#include "kv/tensor.hpp"

namespace kv {

/// Memory that no cache holds, in parts, and the plain reading of it.
class ColdMemory {
 public:
  /// In how many places at once each thread may read. Several places occupy more of the memory's
  /// banks than one; how many are fastest differs between machines.
  static constexpr std::array kStreams = {1, 2, 4, 8};
  /// A part is read in a few milliseconds. Until its turn comes again the others have driven it out
  /// of the caches.
  static constexpr int kNumParts = 8;

  /// Takes twice as much memory as the last-level caches hold or more, but at most 2 GiB and an
  /// eighth of the machine's, and writes to all of it.
  ColdMemory();

  /// Bytes of a part.
  std::int64_t part_bytes() const { return words_.cols() * std::int64_t{sizeof(std::uint32_t)}; }
  /// Bytes of all parts.
  std::int64_t bytes() const { return kNumParts * part_bytes(); }

  /// Reads every byte of a part once, each thread of the team a share of its own.
  /// \param streams one of kStreams
  /// \param part    in [0, kNumParts)
  /// \throws std::invalid_argument on another number
  void read(int streams, int part) const;

 private:
  Eigen::Array<std::uint32_t, kNumParts, Eigen::Dynamic, Eigen::RowMajor> words_;
};

/// Some milliseconds of fp32 multiply-adds on all threads of the team, none of which waits for
/// memory or for another one.
/// \return operations done, a multiply-add counted as 2
double multiply_add();

}  // namespace kv
