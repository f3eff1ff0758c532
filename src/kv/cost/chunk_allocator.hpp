// Where contiguous reservations lie: two ways to find a chunk, both of which leave holes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

namespace kv {

/// Consecutive units of a memory.
struct Chunk {
  std::int64_t begin = 0;  ///< first unit
  std::int64_t size = 0;   ///< units
};

/// Hands out chunks of a memory of fixed size. Nothing is ever moved.
///
/// Invariant: free chunks and those handed out do not overlap and together fill the memory.
class ChunkAllocator {
 public:
  virtual ~ChunkAllocator() = default;
  /// \param size positive
  /// \return at least `size` units; nothing when no hole is large enough: a normal answer
  [[nodiscard]] virtual std::optional<Chunk> allocate(std::int64_t size) = 0;
  /// \param chunk one that allocate() gave, whole
  virtual void free(const Chunk& chunk) = 0;
  /// The largest request that an empty memory serves.
  virtual std::int64_t largest() const = 0;
};

/// First fit: the lowest hole that is large enough.
class FirstFit final : public ChunkAllocator {
 public:
  /// An empty memory of `capacity` units.
  explicit FirstFit(std::int64_t capacity);
  std::optional<Chunk> allocate(std::int64_t size) override;
  void free(const Chunk& chunk) override;
  std::int64_t largest() const override { return capacity_; }

 private:
  std::int64_t capacity_;
  std::map<std::int64_t, std::int64_t> holes_;  // begin -> size; never two side by side
};

/// The buddy system: sizes are powers of two. A chunk is cut in halves until it is just large
/// enough, and two free halves become one again. It finds and joins chunks fast, and rounds every
/// size up. The contiguous systems that Kwon et al. 2023 measure are given it (section 6.1).
class Buddies final : public ChunkAllocator {
 public:
  /// \param capacity any positive number: the memory is one chunk for each of its binary digits
  explicit Buddies(std::int64_t capacity);
  std::optional<Chunk> allocate(std::int64_t size) override;
  void free(const Chunk& chunk) override;
  std::int64_t largest() const override;

 private:
  std::int64_t capacity_;
  std::vector<std::set<std::int64_t>> free_;  // [k]: where free chunks of 2^k begin
};

}  // namespace kv
