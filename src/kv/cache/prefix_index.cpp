#include "kv/cache/prefix_index.hpp"

#include <algorithm>

#include "kv/check.hpp"
#include "kv/exercise.hpp"

namespace kv {

namespace {

//! [mix]
// Every bit of x changes about half of the result's bits.
// Source: the finalizer of MurmurHash3 with the constants of SplitMix64 (Steele et al. 2014).
constexpr std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}
//! [mix]

}  // namespace

//! [hash]
KV_EXERCISE std::uint64_t PrefixIndex::hash(std::uint64_t parent,
                                            std::span<const std::int32_t> tokens) {
  std::uint64_t h = mix(parent);
  for (const std::int32_t token : tokens) h = mix(h ^ static_cast<std::uint32_t>(token));
  return h;
}
//! [hash]

PrefixIndex::PrefixIndex(BlockPool& pool, std::int32_t block_size, Hash hash)
    : pool_(pool),
      block_size_(block_size),
      hash_(hash),
      entries_(static_cast<std::size_t>(pool.num_blocks())) {
  require(block_size > 0, "a block must hold at least one token");
  require(hash != nullptr, "the prefix index needs a hash");
}

//! [find]
KV_EXERCISE std::optional<BlockId> PrefixIndex::find(const Link& link) const {
  const auto [first, last] = by_key_.equal_range(link.key);
  for (auto it = first; it != last; ++it) {
    const Entry& e = entry(it->second);
    if (e.parent == link.parent && e.salt == link.salt && std::ranges::equal(e.tokens, link.tokens))
      return it->second;
  }
  return std::nullopt;
}
//! [find]

void PrefixIndex::touch(std::span<const BlockId> chain) {
  for (auto block = chain.rbegin(); block != chain.rend(); ++block)
    by_use_.splice(by_use_.end(), by_use_, entry(*block).in_use);
}

//! [match]
KV_EXERCISE std::vector<BlockId> PrefixIndex::match(std::span<const std::int32_t> tokens,
                                                    std::uint64_t salt) {
  const auto size = static_cast<std::size_t>(block_size_);
  std::vector<BlockId> chain;
  Link link{.key = salt, .salt = salt};
  for (std::size_t first = 0; first + size <= tokens.size(); first += size) {
    link.tokens = tokens.subspan(first, size);
    link.key = hash_(link.key, link.tokens);
    const std::optional<BlockId> block = find(link);
    if (!block) break;  // what lies behind a hole is of no use
    pool_.share(*block);
    chain.push_back(*block);
    link.parent = *block;
  }
  touch(chain);
  return chain;
}
//! [match]

void PrefixIndex::learn(BlockId block, const Link& link) {
  require(!knows(block), "a known block cannot hold other tokens");
  pool_.share(block);
  Entry& e = entry(block);
  e.known = true;
  e.key = link.key;
  e.salt = link.salt;
  e.parent = link.parent;
  e.num_children = 0;
  e.tokens.assign(link.tokens.begin(), link.tokens.end());
  e.in_use = by_use_.insert(by_use_.end(), block);
  by_key_.emplace(link.key, block);
  if (link.parent >= 0) ++entry(link.parent).num_children;
}

void PrefixIndex::insert(std::span<const std::int32_t> tokens, std::span<const BlockId> blocks,
                         std::uint64_t salt) {
  const auto size = static_cast<std::size_t>(block_size_);
  std::vector<BlockId> chain;
  Link link{.key = salt, .salt = salt};
  for (std::size_t i = 0; i < blocks.size() && (i + 1) * size <= tokens.size(); ++i) {
    link.tokens = tokens.subspan(i * size, size);
    link.key = hash_(link.key, link.tokens);
    const std::optional<BlockId> known = find(link);
    if (!known) learn(blocks[i], link);
    link.parent = known.value_or(blocks[i]);
    chain.push_back(link.parent);
  }
  touch(chain);
}

//! [evict]
KV_EXERCISE std::optional<BlockId> PrefixIndex::evict() {
  const auto idle = std::ranges::find_if(by_use_, [&](BlockId block) {
    return pool_.num_holders(block) == 1 && entry(block).num_children == 0;
  });
  if (idle == by_use_.end()) return std::nullopt;
  const BlockId block = *idle;
  Entry& e = entry(block);
  const auto [first, last] = by_key_.equal_range(e.key);
  by_key_.erase(std::find_if(first, last, [&](const auto& item) { return item.second == block; }));
  by_use_.erase(idle);
  if (e.parent >= 0) --entry(e.parent).num_children;
  e = {};
  pool_.release(block);
  return block;
}
//! [evict]

// Counted where a forgotten key would be left over: the comparison of tokens would hide it.
std::int64_t PrefixIndex::size() const { return static_cast<std::int64_t>(by_key_.size()); }

// A block stays while a block behind it is held: somebody with a copy of his own may hold only the
// child. So all but the held blocks and what lies before them can go.
std::int64_t PrefixIndex::num_idle() const {
  std::int64_t num_idle = size();
  std::vector<bool> stays(entries_.size());
  for (const BlockId known : by_use_) {
    if (pool_.num_holders(known) == 1) continue;
    for (BlockId block = known; block >= 0 && !stays[static_cast<std::size_t>(block)];
         block = entry(block).parent) {
      stays[static_cast<std::size_t>(block)] = true;
      --num_idle;
    }
  }
  return num_idle;
}

bool PrefixIndex::knows(BlockId block) const {
  require(block >= 0 && block < pool_.num_blocks(), "there is no such block");
  return entry(block).known;
}

BlockId PrefixIndex::parent(BlockId block) const {
  require(knows(block), "only a known block has a parent");
  return entry(block).parent;
}

//! [salt]
KV_EXERCISE std::uint64_t prefix_salt(std::string_view adapter, std::string_view tenant) {
  if (adapter.empty() && tenant.empty()) return 0;
  std::uint64_t h = 0;
  for (const std::string_view name : {adapter, tenant}) {
    h = mix(h ^ name.size());  // so that ("ab", "c") is not ("a", "bc")
    for (const char c : name) h = mix(h ^ static_cast<unsigned char>(c));
  }
  return h;
}
//! [salt]

}  // namespace kv
