#include "kv/cache/paged.hpp"

#include <algorithm>
#include <utility>

#include "kv/cache/host_blocks.hpp"
#include "kv/check.hpp"

namespace kv {

std::shared_ptr<PagedPool> make_host_pool(const BlockShape& shape) {
  return std::make_shared<PagedPool>(std::make_unique<HostBlocks>(shape));
}

PagedCache::PagedCache(std::shared_ptr<PagedPool> pool, std::int32_t sequence)
    : pool_(std::move(pool)), sequence_(sequence) {
  require(pool_ != nullptr, "a sequence needs a pool");
  table_.block_size = pool_->allocator.block_size();
  appended_.assign(static_cast<std::size_t>(pool_->storage->shape().num_layers), 0);
}

PagedCache::~PagedCache() {
  if (pool_ == nullptr) return;  // moved from
  try {
    truncate(0);
  } catch (...) {
    // A device that has failed cannot erase. Its next use will say so; a destructor cannot.
  }
}

PagedCache::PagedCache(PagedCache&& other) noexcept
    : pool_(std::move(other.pool_)),
      table_(std::exchange(other.table_, {})),
      sequence_(other.sequence_),
      appended_(std::move(other.appended_)) {}

PagedCache& PagedCache::operator=(PagedCache&& other) noexcept {
  if (this == &other) return *this;
  const PagedCache old(std::move(*this));  // gives its blocks back at the end of this function
  pool_ = std::move(other.pool_);
  table_ = std::exchange(other.table_, {});
  sequence_ = other.sequence_;
  appended_ = std::move(other.appended_);
  return *this;
}

//! [reserve]
bool PagedCache::reserve(std::int64_t num_tokens) {
  std::vector<BlockCopy> copies;
  std::vector<BlockId> evicted;
  if (!pool_->allocator.reserve(table_, num_tokens, copies, sequence_, &evicted)) return false;
  pool_->storage->erase(evicted);
  pool_->storage->copy(copies);
  pool_->num_copies += static_cast<std::int64_t>(copies.size());
  return true;
}
//! [reserve]

PagedCache PagedCache::fork(std::int32_t sequence) const {
  require(std::ranges::all_of(appended_, [](std::int64_t rows) { return rows == 0; }),
          "a sequence is forked between passes, not within one");
  PagedCache child(pool_, sequence);
  child.table_ = pool_->allocator.fork(table_, sequence);
  return child;
}

std::int64_t PagedCache::adopt_prefix(std::span<const TokenId> tokens, std::uint64_t salt) {
  return pool_->allocator.adopt_prefix(table_, tokens, salt, sequence_);
}

void PagedCache::publish(std::span<const TokenId> tokens, std::uint64_t salt) const {
  pool_->allocator.publish(table_, tokens, salt, sequence_);
}

void PagedCache::truncate(std::int64_t num_tokens) {
  const std::int64_t num_written = length() + *std::ranges::max_element(appended_);
  std::vector<BlockId> freed;
  pool_->allocator.truncate(table_, num_tokens, &freed, sequence_);
  std::ranges::fill(appended_, 0);
  pool_->storage->erase(freed);
  // The rest of the last block, unless somebody else reads it.
  const std::int64_t end = std::min(num_written, table_.num_slots());
  if (num_tokens >= end || pool_->allocator.pool().num_holders(table_.blocks.back()) > 1) return;
  pool_->storage->erase_slots(slot_mapping(table_, num_tokens, end - num_tokens));
}

//! [append]
void PagedCache::append(int layer, const float* k_rows, const float* v_rows,
                        std::int64_t num_rows) {
  const std::int64_t first = this->num_rows(layer);
  require(num_rows >= 0 && reserve(first - length() + num_rows),
          "the rows must fit the pool: reserve() before a pass, capacity() is what is left");
  pool_->storage->write(layer, slot_mapping(table_, first, num_rows), k_rows, v_rows);
  appended_[static_cast<std::size_t>(layer)] += num_rows;
}
//! [append]

//! [spans]
std::vector<KvSpan> PagedCache::spans(int layer, int kv_head) const {
  const BlockShape& shape = pool_->storage->shape();
  const std::int64_t num_rows = this->num_rows(layer);
  require(kv_head >= 0 && kv_head < shape.heads.num_kv_heads, "kv_head out of range");
  const std::int64_t head = kv_head * (shape.row_bytes() / shape.heads.num_kv_heads);
  const std::byte* k = pool_->storage->k(layer);
  const std::byte* v = pool_->storage->v(layer);
  const std::int64_t block_bytes = shape.block_size * shape.row_bytes();
  std::vector<KvSpan> spans;
  spans.reserve(table_.blocks.size());
  std::int64_t num_left = num_rows;
  for (const BlockId block : table_.blocks) {
    if (num_left <= 0) break;  // blocks behind are reserved
    const std::int64_t offset = block * block_bytes + head;
    spans.push_back({k + offset, v + offset, std::min<std::int64_t>(shape.block_size, num_left),
                     shape.heads.kv_dim(), shape.dtype});
    num_left -= shape.block_size;
  }
  return spans;
}
//! [spans]

void PagedCache::commit(std::int64_t num_tokens) {
  for (const std::int64_t rows : appended_)
    require(rows == num_tokens, "every layer must have appended the rows that are committed");
  std::ranges::fill(appended_, 0);
  table_.length += num_tokens;
}

std::int64_t PagedCache::capacity() const {
  return length() + pool_->allocator.num_reservable(table_);
}

std::int64_t PagedCache::bytes_held() const {
  return static_cast<std::int64_t>(table_.blocks.size()) * pool_->storage->shape().block_bytes();
}

std::int64_t PagedCache::bytes_in_use() const {
  const BlockShape& shape = pool_->storage->shape();
  return 2 * shape.num_layers * length() * shape.row_bytes();
}

std::int64_t PagedCache::num_rows(int layer) const {
  require(layer >= 0 && layer < static_cast<int>(appended_.size()), "layer out of range");
  return length() + appended_[static_cast<std::size_t>(layer)];
}

//! [pack tables]
PackedTables pack_tables(std::span<const BlockTable* const> tables) {
  PackedTables packed;
  for (const BlockTable* table : tables)
    packed.max_blocks =
        std::max(packed.max_blocks, static_cast<std::int64_t>(table->blocks.size()));
  for (const BlockTable* table : tables) {
    packed.ids.insert(packed.ids.end(), table->blocks.begin(), table->blocks.end());
    packed.ids.resize(
        packed.ids.size() + static_cast<std::size_t>(packed.max_blocks) - table->blocks.size(), -1);
  }
  return packed;
}
//! [pack tables]

}  // namespace kv
