// What sequences do with blocks: grow, fork, shrink, copy before a write. Ids only, no memory.
//
// No exceptions on these paths and nothing but the standard library: the site's pages run this very
// code.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kv/cache/block_pool.hpp"
#include "kv/cache/block_table.hpp"
#include "kv/cache/prefix_index.hpp"

namespace kv {

/// A block that must be copied, in every layer, before its new owner writes to it.
struct BlockCopy {
  BlockId from = 0;             ///< the shared block
  BlockId to = 0;               ///< the writer's own
  std::int32_t num_tokens = 0;  ///< tokens at the block's beginning that are in use
};

/// One step of the allocator, for a trace. Allocate, share and learn add one holder, release and
/// evict take one away, the others none: whoever adds up sees each block's holders.
struct BlockEvent {
  /// What happened to `block`.
  enum class Kind {
    allocate,  ///< taken from the pool
    share,     ///< one more holder (fork, or found in the prefix index)
    release,   ///< one holder less: a table no longer lists it
    free,      ///< after a release or evict that was the last holder's: back to the pool
    copy,      ///< filled with what `from` holds (copy-on-write)
    learn,     ///< known to the prefix index, which holds it, from now on
    evict,     ///< forgotten by the prefix index
    exhausted  ///< no block was left: nothing changed
  };
  Kind kind = Kind::allocate;    ///< what happened
  std::int32_t sequence = -1;    ///< the number given with the call; -1 when none has to do with it
  BlockId block = -1;            ///< none for exhausted
  BlockId from = -1;             ///< for copy
  std::int32_t num_holders = 0;  ///< of `block` afterwards
};

/// Receives events as they happen.
class BlockListener {
 public:
  virtual ~BlockListener() = default;
  /// Called within the allocator, which must not be called from here.
  virtual void on_event(const BlockEvent& event) = 0;
};

/// Changes block tables. Every call either does all it says or, when blocks run out, nothing.
///
/// Invariants: a block that two tables hold is never written; the holders of a block are the tables
/// that list it and, once, the prefix index.
class BlockAllocator {
 public:
  /// \param num_blocks blocks of the pool
  /// \param block_size tokens of a block, at least 1
  /// \param hash       of the prefix index; another one forces collisions in tests
  BlockAllocator(BlockId num_blocks, std::int32_t block_size,
                 PrefixIndex::Hash hash = PrefixIndex::hash);
  BlockAllocator(const BlockAllocator&) = delete;  // the index refers to the pool beside it
  BlockAllocator& operator=(const BlockAllocator&) = delete;

  /// Makes slots [length, length + num_tokens) of a table writable for it alone: takes blocks and,
  /// when the last block is filled in part and shared, replaces it by a copy. Evicts idle blocks of
  /// the prefix index when the pool is empty. Repeating a call changes nothing.
  ///
  /// \param table      grows by the blocks that are missing
  /// \param num_tokens room that is asked for behind the tokens that the table holds
  /// \param copies     receives what must be copied before anything is written: at most one block
  /// \param sequence   number for the trace
  /// \param evicted    if not null, receives blocks of the table that still hold evicted tokens;
  ///                   they are to be erased before the copies are made
  /// \return whether there were enough blocks; if not, nothing has changed
  [[nodiscard]] bool reserve(BlockTable& table, std::int64_t num_tokens,
                             std::vector<BlockCopy>& copies, std::int32_t sequence = -1,
                             std::vector<BlockId>* evicted = nullptr);
  /// The largest num_tokens for which reserve() would answer yes, if nobody else took blocks.
  std::int64_t num_reservable(const BlockTable& table) const;

  /// A second table of the same tokens; reserved blocks behind them are not shared. A last block
  /// that is filled in part is no longer writable for either of the two: reserve() again.
  /// \param table    stays as it is
  /// \param sequence number of the new one, for the trace
  BlockTable fork(const BlockTable& table, std::int32_t sequence = -1);
  /// Forgets tokens behind the first `num_tokens` and gives back blocks that hold none.
  /// \param table      to be shortened
  /// \param num_tokens tokens that stay; 0 gives back everything
  /// \param freed      if not null, receives the blocks that nobody holds any more
  /// \param sequence   number for the trace
  void truncate(BlockTable& table, std::int64_t num_tokens, std::vector<BlockId>* freed = nullptr,
                std::int32_t sequence = -1);

  /// Begins an empty table with the known blocks of a prompt: whole blocks, and never the last
  /// token, since something must be computed to have logits.
  /// \param table    empty; receives the blocks that were found
  /// \param tokens   the whole prompt
  /// \param salt     of publish(): what was published with another one is not found
  /// \param sequence number for the trace
  /// \return tokens found, now the table's length
  std::int64_t adopt_prefix(BlockTable& table, std::span<const std::int32_t> tokens,
                            std::uint64_t salt = 0, std::int32_t sequence = -1);
  /// Lets others find the full blocks of a sequence.
  /// \param table    its full blocks become known
  /// \param tokens   all committed tokens of the table
  /// \param salt     keeps apart what must not be shared (another adapter, another user)
  /// \param sequence number for the trace
  void publish(const BlockTable& table, std::span<const std::int32_t> tokens,
               std::uint64_t salt = 0, std::int32_t sequence = -1);

  /// Who is free, and how many hold each block.
  const BlockPool& pool() const { return pool_; }
  /// The known full blocks.
  const PrefixIndex& index() const { return index_; }
  /// Tokens of a block.
  std::int32_t block_size() const { return block_size_; }
  /// \param listener receives every event from now on; nobody when null
  void set_listener(BlockListener* listener) { listener_ = listener; }

 private:
  /// Whether the next token goes into a block that somebody else (a fork, the prefix index) holds
  /// too: the last block is filled in part and shared. Full blocks are never written again, and
  /// reserved blocks behind the last token are in no other table.
  bool shares_last_block(const BlockTable& table) const;
  /// Copy-on-write: the table gets a block of its own in the place of the one that its last token
  /// lies in.
  /// \param table    its last block is replaced
  /// \param copies   receives what must be copied
  /// \param sequence number for the trace
  /// \param evicted  as in take()
  /// \return the shared block: to be released when no more blocks are taken
  BlockId copy_last_block(BlockTable& table, std::vector<BlockCopy>& copies, std::int32_t sequence,
                          std::vector<BlockId>* evicted);
  /// A block from the pool, or one that the prefix index gives up. The caller has made sure that
  /// there is one.
  /// \param sequence number for the trace
  /// \param evicted  if not null, receives the block when the prefix index gave it up
  BlockId take(std::int32_t sequence, std::vector<BlockId>* evicted);
  /// One holder less, and says so. \return whether the block has become free
  bool release(BlockId block, std::int32_t sequence);
  /// Sends the listener, if there is one, an event about a block.
  void tell(BlockEvent::Kind kind, std::int32_t sequence, BlockId block, BlockId from = -1) const;

  BlockPool pool_;
  PrefixIndex index_;
  std::int32_t block_size_;
  BlockListener* listener_ = nullptr;
};

}  // namespace kv
