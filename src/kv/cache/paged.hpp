// The paged KV cache: a sequence whose rows lie in blocks that it shares with others.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kv/cache/block_allocator.hpp"
#include "kv/cache/block_storage.hpp"
#include "kv/cache/sequence_state.hpp"
#include "kv/tensor.hpp"

namespace kv {

/// Blocks and their memory, shared by all sequences.
struct PagedPool {
  /// \param storage_in where K and V lie; its shape sizes the allocator
  explicit PagedPool(std::unique_ptr<BlockStorage> storage_in)
      : storage(std::move(storage_in)),
        allocator(storage->shape().num_blocks, storage->shape().block_size) {}

  std::unique_ptr<BlockStorage> storage;  ///< K and V of all blocks
  BlockAllocator allocator;               ///< who holds which block
  std::int64_t num_copies = 0;            ///< blocks copied before a write, so far
};

/// A pool in the memory of the host.
std::shared_ptr<PagedPool> make_host_pool(const BlockShape& shape);

/// One sequence of a pool. Move-only: a copy is called fork().
///
/// spans() gives one span per block, in the order of the tokens. With a pool on a device the
/// pointers are the device's.
/// Invariants: those of BlockTable and SequenceState; blocks that become free are made NaN.
class PagedCache final : public SequenceState {
 public:
  /// An empty sequence.
  /// \param pool     gives the blocks; shared with other sequences
  /// \param sequence its number in a trace
  explicit PagedCache(std::shared_ptr<PagedPool> pool, std::int32_t sequence = -1);
  ~PagedCache() override;
  /// Takes over the blocks; the other one may then only be destroyed or assigned to.
  PagedCache(PagedCache&& other) noexcept;
  /// Gives its own blocks back first.
  PagedCache& operator=(PagedCache&& other) noexcept;

  /// Sets slots aside for the next tokens, so that append() cannot fail. Exhaustion is a normal
  /// answer: false, and nothing has changed.
  [[nodiscard]] bool reserve(std::int64_t num_tokens);
  /// A second sequence of the same committed tokens. No row is copied until one of the two writes.
  PagedCache fork(std::int32_t sequence = -1) const;
  /// Starts from the blocks that the pool knows for this prompt; only on an empty sequence.
  /// \param tokens the whole prompt
  /// \param salt   as in BlockAllocator::publish()
  /// \return tokens that need not be computed, at most tokens.size() - 1
  std::int64_t adopt_prefix(std::span<const TokenId> tokens, std::uint64_t salt = 0);
  /// Lets other sequences find this one's full blocks.
  /// \param tokens all committed tokens
  /// \param salt   as in BlockAllocator::publish()
  void publish(std::span<const TokenId> tokens, std::uint64_t salt = 0) const;
  /// Forgets every token after the first `num_tokens`.
  void truncate(std::int64_t num_tokens);

  void append(int layer, const float* k_rows, const float* v_rows, std::int64_t num_rows) override;
  std::vector<KvSpan> spans(int layer, int kv_head) const override;
  void commit(std::int64_t num_tokens) override;
  std::int64_t length() const override { return table_.length; }
  /// Tokens that this sequence could come to if nobody else took blocks.
  std::int64_t capacity() const override;
  /// Bytes of the blocks in its table, shared ones included.
  std::int64_t bytes_held() const override;
  std::int64_t bytes_in_use() const override;

  /// The blocks of this sequence.
  const BlockTable& table() const { return table_; }
  /// The pool that it shares with others.
  const PagedPool& pool() const { return *pool_; }
  /// Rows that a layer holds, appended ones included.
  std::int64_t num_rows(int layer) const;

 private:
  std::shared_ptr<PagedPool> pool_;
  BlockTable table_;
  std::int32_t sequence_ = -1;
  std::vector<std::int64_t> appended_;  // per layer: rows written behind length()
};

/// Rows of block ids as kernels take them: int32 [num_sequences, max_blocks], -1 where a sequence
/// has fewer.
struct PackedTables {
  std::vector<std::int32_t> ids;  ///< [num_sequences, max_blocks]
  std::int64_t max_blocks = 0;    ///< blocks of the longest table
};
/// The tables of a batch as one array.
///
/// \param tables one a sequence
PackedTables pack_tables(std::span<const BlockTable* const> tables);

}  // namespace kv
