#include "kv/cache/block_allocator.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "kv/check.hpp"
#include "kv/exercise.hpp"

namespace kv {

namespace {

//! [most tokens]
constexpr std::int64_t kMostTokens = std::int64_t{1} << 62;  // sums of two still fit 63 bits
//! [most tokens]

}  // namespace

BlockAllocator::BlockAllocator(BlockId num_blocks, std::int32_t block_size, PrefixIndex::Hash hash)
    : pool_(num_blocks), index_(pool_, block_size, hash), block_size_(block_size) {}

void BlockAllocator::tell(BlockEvent::Kind kind, std::int32_t sequence, BlockId block,
                          BlockId from) const {
  if (listener_ == nullptr) return;
  listener_->on_event({kind, sequence, block, from, block < 0 ? 0 : pool_.num_holders(block)});
}

BlockId BlockAllocator::take(std::int32_t sequence, std::vector<BlockId>* evicted) {
  std::optional<BlockId> block = pool_.allocate();
  if (!block) {
    const std::optional<BlockId> idle = index_.evict();
    require(idle.has_value(), "fewer idle blocks than were counted");
    tell(BlockEvent::Kind::evict, -1, *idle);
    tell(BlockEvent::Kind::free, -1, *idle);
    if (evicted != nullptr) evicted->push_back(*idle);
    block = pool_.allocate();
  }
  tell(BlockEvent::Kind::allocate, sequence, *block);
  return *block;
}

bool BlockAllocator::release(BlockId block, std::int32_t sequence) {
  const bool free = pool_.release(block);
  tell(BlockEvent::Kind::release, sequence, block);
  if (free) tell(BlockEvent::Kind::free, sequence, block);
  return free;
}

//! [copy on write]
KV_EXERCISE bool BlockAllocator::shares_last_block(const BlockTable& table) const {
  return table.length % block_size_ != 0 &&
         pool_.num_holders(table.blocks[static_cast<std::size_t>(table.length / block_size_)]) > 1;
}

KV_EXERCISE BlockId BlockAllocator::copy_last_block(BlockTable& table,
                                                    std::vector<BlockCopy>& copies,
                                                    std::int32_t sequence,
                                                    std::vector<BlockId>* evicted) {
  BlockId& last = table.blocks[static_cast<std::size_t>(table.length / block_size_)];
  const BlockId shared = std::exchange(last, take(sequence, evicted));
  copies.push_back({shared, last, static_cast<std::int32_t>(table.length % block_size_)});
  tell(BlockEvent::Kind::copy, sequence, last, shared);
  return shared;
}
//! [copy on write]

//! [reserve]
KV_EXERCISE bool BlockAllocator::reserve(BlockTable& table, std::int64_t num_tokens,
                                         std::vector<BlockCopy>& copies, std::int32_t sequence,
                                         std::vector<BlockId>* evicted) {
  require(table.block_size == block_size_, "the table's blocks must have the pool's size");
  require(num_tokens >= 0 && num_tokens <= kMostTokens, "no sequence has so many tokens");
  if (num_tokens == 0) return true;
  const bool copy = shares_last_block(table);
  const std::int64_t num_blocks = num_blocks_for(table.length + num_tokens, block_size_);
  const std::int64_t num_new =
      std::max<std::int64_t>(0, num_blocks - static_cast<std::int64_t>(table.blocks.size()));
  const std::int64_t num_needed = num_new + (copy ? 1 : 0);

  // All or nothing: count before the first block is taken.
  if (num_needed > pool_.num_free() && num_needed > pool_.num_free() + index_.num_idle()) {
    tell(BlockEvent::Kind::exhausted, sequence, -1);
    return false;
  }
  std::optional<BlockId> shared;
  if (copy) shared = copy_last_block(table, copies, sequence, evicted);
  for (std::int64_t i = 0; i < num_new; ++i) table.blocks.push_back(take(sequence, evicted));
  // Last of all: a block that only the prefix index holds could be evicted before it is copied.
  if (shared) release(*shared, sequence);
  return true;
}
//! [reserve]

std::int64_t BlockAllocator::num_reservable(const BlockTable& table) const {
  const bool copy = shares_last_block(table);
  const std::int64_t num_available = pool_.num_free() + index_.num_idle();
  if (copy && num_available == 0) return 0;
  return table.num_slots() - table.length + (num_available - (copy ? 1 : 0)) * block_size_;
}

//! [fork]
KV_EXERCISE BlockTable BlockAllocator::fork(const BlockTable& table, std::int32_t sequence) {
  BlockTable child{table.block_size, {}, table.length};
  const std::int64_t num_blocks = num_blocks_for(table.length, block_size_);
  child.blocks.assign(table.blocks.begin(), table.blocks.begin() + num_blocks);
  for (const BlockId block : child.blocks) {
    pool_.share(block);
    tell(BlockEvent::Kind::share, sequence, block);
  }
  return child;
}
//! [fork]

//! [truncate]
KV_EXERCISE void BlockAllocator::truncate(BlockTable& table, std::int64_t num_tokens,
                                          std::vector<BlockId>* freed, std::int32_t sequence) {
  require(num_tokens >= 0 && num_tokens <= table.length,
          "cannot truncate to more tokens than there are");
  table.length = num_tokens;
  while (static_cast<std::int64_t>(table.blocks.size()) > num_blocks_for(num_tokens, block_size_)) {
    const BlockId block = table.blocks.back();
    table.blocks.pop_back();
    if (release(block, sequence) && freed != nullptr) freed->push_back(block);
  }
}
//! [truncate]

//! [adopt prefix]
std::int64_t BlockAllocator::adopt_prefix(BlockTable& table, std::span<const std::int32_t> tokens,
                                          std::uint64_t salt, std::int32_t sequence) {
  require(table.block_size == block_size_, "the table's blocks must have the pool's size");
  require(table.blocks.empty() && table.length == 0, "only an empty sequence can adopt a prefix");
  if (tokens.empty()) return 0;
  // The last token is always computed: its logits are what the prompt is run for.
  table.blocks = index_.match(tokens.first(tokens.size() - 1), salt);
  table.length = table.num_slots();
  for (const BlockId block : table.blocks) tell(BlockEvent::Kind::share, sequence, block);
  return table.length;
}
//! [adopt prefix]

void BlockAllocator::publish(const BlockTable& table, std::span<const std::int32_t> tokens,
                             std::uint64_t salt, std::int32_t sequence) {
  require(static_cast<std::int64_t>(tokens.size()) == table.length,
          "all committed tokens of the table must be given");
  const std::span<const BlockId> full(table.blocks.data(), tokens.size() / block_size_);
  std::vector<BlockId> unknown;
  if (listener_ != nullptr)
    std::ranges::copy_if(full, std::back_inserter(unknown),
                         [&](BlockId block) { return !index_.knows(block); });
  index_.insert(tokens, full, salt);
  for (const BlockId block : unknown)
    if (index_.knows(block)) tell(BlockEvent::Kind::learn, sequence, block);
}

}  // namespace kv
