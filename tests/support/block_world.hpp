// The allocator beside a plain model of it: sequences are lists of tokens, nothing is shared.
//
// After every operation check() compares all that the allocator can be asked with what follows from
// the model, and reads every sequence back through its table from a memory of one token per slot.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "kv/cache/block_allocator.hpp"

namespace kv_test {

/// Throws with a message; a Catch assertion for each of millions of comparisons would be slow.
inline void demand(bool ok, const char* what) {
  if (!ok) throw std::logic_error(what);
}

class BlockWorld final : public kv::BlockListener {
 public:
  using Tokens = std::vector<std::int32_t>;
  static constexpr std::int32_t kErased = -1;

  /// A sequence as the allocator and as the model see it.
  struct Sequence {
    kv::BlockTable table;
    Tokens tokens;
    std::uint64_t salt = 0;
  };

  BlockWorld(kv::BlockId num_blocks, std::int32_t block_size,
             kv::PrefixIndex::Hash hash = kv::PrefixIndex::hash)
      : allocator(num_blocks, block_size, hash),
        memory_(static_cast<std::size_t>(num_blocks) * static_cast<std::size_t>(block_size),
                kErased),
        holders_(static_cast<std::size_t>(num_blocks), 0) {
    allocator.set_listener(this);
  }

  /// Starts a sequence with what is known of its prompt; the rest of the prompt is appended.
  /// \return whether there was room for all of it; if not, there is no such sequence
  bool start(int id, const Tokens& prompt, std::uint64_t salt) {
    Sequence s{{allocator.block_size(), {}, 0}, {}, salt};
    const std::int64_t found = allocator.adopt_prefix(s.table, prompt, salt, id);
    const std::int64_t expected = known_prefix(prompt, salt, s.table.blocks);
    demand(found == expected, "the longest known prefix is found, and its blocks");
    demand(prompt.empty() || found < static_cast<std::int64_t>(prompt.size()),
           "something is left to compute");
    s.tokens.assign(prompt.begin(), prompt.begin() + found);
    touch(s, found);
    sequences[id] = std::move(s);
    if (append(id, Tokens(prompt.begin() + found, prompt.end()))) return true;
    end(id);
    return false;
  }

  /// Reserves, writes, commits. \return whether there was room
  bool append(int id, const Tokens& tokens) {
    Sequence& s = sequences.at(id);
    const auto num_tokens = static_cast<std::int64_t>(tokens.size());
    if (!reserve(id, num_tokens)) return false;
    for (const std::int32_t token : tokens) {
      const kv::Slot slot = s.table.slot(s.table.length);
      const auto block = static_cast<kv::BlockId>(slot / allocator.block_size());
      demand(allocator.pool().num_holders(block) == 1, "a shared block is never written");
      memory_[static_cast<std::size_t>(slot)] = token;
      ++s.table.length;
    }
    s.tokens.insert(s.tokens.end(), tokens.begin(), tokens.end());
    return true;
  }

  bool reserve(int id, std::int64_t num_tokens) {
    Sequence& s = sequences.at(id);
    const std::int64_t reservable = allocator.num_reservable(s.table);
    const kv::BlockTable before = s.table;
    const auto free_before = allocator.pool().free_blocks();
    const std::int64_t known_before = allocator.index().size();
    std::vector<kv::BlockCopy> copies;
    std::vector<kv::BlockId> evicted;
    const bool done = allocator.reserve(s.table, num_tokens, copies, id, &evicted);
    demand(done == (num_tokens <= reservable), "num_reservable tells what reserve will answer");
    if (!done) {
      demand(s.table.blocks == before.blocks && s.table.length == before.length && copies.empty() &&
                 evicted.empty() && allocator.pool().free_blocks() == free_before &&
                 allocator.index().size() == known_before,
             "a reservation that fails changes nothing");
      return false;
    }
    demand(copies.size() <= 1, "at most one block is copied");
    for (const kv::BlockId block : evicted) erase(block);
    for (const kv::BlockCopy& copy : copies)
      for (std::int64_t i = 0; i < allocator.block_size(); ++i) {
        demand(cell(copy.to, i) == kErased, "a copy goes to an erased block");
        if (i < copy.num_tokens) cell(copy.to, i) = cell(copy.from, i);
      }
    return true;
  }

  void fork(int id, int child) {
    const Sequence& s = sequences.at(id);
    sequences[child] = {allocator.fork(s.table, child), s.tokens, s.salt};
  }

  void truncate(int id, std::int64_t num_tokens) {
    Sequence& s = sequences.at(id);
    const std::int64_t length = s.table.length;
    std::vector<kv::BlockId> freed;
    allocator.truncate(s.table, num_tokens, &freed, id);
    for (const kv::BlockId block : freed) erase(block);
    // What is left of the last block is erased unless somebody else reads it.
    for (std::int64_t t = num_tokens; t < std::min(length, s.table.num_slots()); ++t) {
      const kv::Slot slot = s.table.slot(t);
      const auto block = static_cast<kv::BlockId>(slot / allocator.block_size());
      if (allocator.pool().num_holders(block) == 1)
        memory_[static_cast<std::size_t>(slot)] = kErased;
    }
    s.tokens.resize(static_cast<std::size_t>(num_tokens));
  }

  void end(int id) {
    truncate(id, 0);
    sequences.erase(id);
  }

  void publish(int id) {
    const Sequence& s = sequences.at(id);
    const std::int64_t num_full = s.table.length / allocator.block_size();
    for (std::int64_t i = 0; i < num_full; ++i)
      known_.try_emplace(prefix(s, i + 1), Known{s.table.blocks[static_cast<std::size_t>(i)], 0});
    allocator.publish(s.table, s.tokens, s.salt, id);
    touch(s, num_full * allocator.block_size());
  }

  /// Keeps the events' account of the holders, and checks who is evicted.
  void on_event(const kv::BlockEvent& event) override {
    using Kind = kv::BlockEvent::Kind;
    num_exhausted += event.kind == Kind::exhausted ? 1 : 0;
    if (event.kind == Kind::exhausted) return;
    std::int32_t& holders = holders_.at(static_cast<std::size_t>(event.block));
    if (event.kind == Kind::allocate) demand(holders == 0, "a free block is taken");
    if (event.kind == Kind::share || event.kind == Kind::learn)
      demand(holders > 0, "a held block is shared");
    if (event.kind == Kind::free) demand(holders == 0, "a block without holders is freed");
    if (event.kind == Kind::evict) forget(event.block);
    if (event.kind == Kind::allocate || event.kind == Kind::share || event.kind == Kind::learn)
      ++holders;
    if (event.kind == Kind::release || event.kind == Kind::evict) --holders;
    num_evicted += event.kind == Kind::evict ? 1 : 0;
    num_copied += event.kind == Kind::copy ? 1 : 0;
    num_shared += event.kind == Kind::share ? 1 : 0;
  }

  /// Every invariant.
  void check() const {
    const kv::BlockPool& pool = allocator.pool();
    std::vector<std::int32_t> holders(static_cast<std::size_t>(pool.num_blocks()), 0);
    for (const auto& [id, s] : sequences) {
      check(s);
      for (const kv::BlockId block : s.table.blocks) ++holders[static_cast<std::size_t>(block)];
    }
    for (const auto& [key, known] : known_) {
      demand(allocator.index().knows(known.block), "what was learned is known until it is evicted");
      ++holders[static_cast<std::size_t>(known.block)];
    }
    demand(allocator.index().size() == static_cast<std::int64_t>(known_.size()),
           "nothing else is known");
    demand(allocator.index().num_idle() == num_idle(holders), "idle blocks are counted right");

    std::vector<bool> is_free(holders.size(), false);
    for (const kv::BlockId block : pool.free_blocks()) {
      demand(!is_free[static_cast<std::size_t>(block)], "no block is free twice");
      is_free[static_cast<std::size_t>(block)] = true;
    }
    for (kv::BlockId block = 0; block < pool.num_blocks(); ++block) {
      const auto b = static_cast<std::size_t>(block);
      demand(pool.num_holders(block) == holders[b], "holders are the tables and the index");
      demand(holders_[b] == holders[b], "events account for every holder");
      demand(is_free[b] == (holders[b] == 0), "a block is free exactly when nobody holds it");
      if (!is_free[b]) continue;
      for (std::int64_t i = 0; i < allocator.block_size(); ++i)
        demand(memory_[b * static_cast<std::size_t>(allocator.block_size()) +
                       static_cast<std::size_t>(i)] == kErased,
               "a free block is erased");
    }
  }

  /// Two worlds with the same text behave the same from here on.
  std::string state() const {
    std::ostringstream out;
    for (const auto& [id, s] : sequences) {
      out << id << '/' << s.salt << ':';
      for (const std::int32_t token : s.tokens) out << token << ' ';
      out << '[';
      for (const kv::BlockId block : s.table.blocks) out << block << ' ';
      out << ']';
    }
    out << "free ";
    for (const kv::BlockId block : allocator.pool().free_blocks()) out << block << ' ';
    // Only the order of use matters, not the time.
    std::map<std::int64_t, std::string> by_use;
    for (const auto& [key, known] : known_) {
      std::string& text = by_use[known.used];
      text += "k" + std::to_string(known.block) + "/" + std::to_string(key.first) + ":";
      for (const std::int32_t token : key.second) text += std::to_string(token) + " ";
    }
    for (const auto& [used, text] : by_use) out << text << '<';
    return out.str();
  }

  kv::BlockAllocator allocator;
  std::map<int, Sequence> sequences;
  std::int64_t num_exhausted = 0, num_evicted = 0, num_copied = 0, num_shared = 0;

 private:
  using Key = std::pair<std::uint64_t, Tokens>;  // salt, all tokens up to the block's end
  struct Known {
    kv::BlockId block = 0;
    std::int64_t used = 0;
  };

  std::int32_t& cell(kv::BlockId block, std::int64_t i) {
    return memory_[static_cast<std::size_t>(std::int64_t{block} * allocator.block_size() + i)];
  }
  void erase(kv::BlockId block) {
    for (std::int64_t i = 0; i < allocator.block_size(); ++i) cell(block, i) = kErased;
  }
  Key prefix(const Sequence& s, std::int64_t num_blocks) const {
    return {s.salt, Tokens(s.tokens.begin(),
                           s.tokens.begin() + num_blocks * std::int64_t{allocator.block_size()})};
  }

  // Tokens of the longest chain of known blocks that leaves a token of the prompt; `blocks` must be
  // its blocks.
  std::int64_t known_prefix(const Tokens& prompt, std::uint64_t salt,
                            const std::vector<kv::BlockId>& blocks) const {
    const std::size_t size = static_cast<std::size_t>(allocator.block_size());
    std::size_t n = 0;
    for (; (n + 1) * size < prompt.size(); ++n) {
      const auto it =
          known_.find({salt, Tokens(prompt.begin(),
                                    prompt.begin() + static_cast<std::ptrdiff_t>((n + 1) * size))});
      if (it == known_.end()) break;
      demand(n < blocks.size() && blocks[n] == it->second.block, "the known block is taken");
    }
    return static_cast<std::int64_t>(n * size);
  }

  void touch(const Sequence& s, std::int64_t num_tokens) {
    ++clock_;
    for (std::int64_t i = 1; i * allocator.block_size() <= num_tokens; ++i)
      known_.at(prefix(s, i)).used = clock_;
  }

  bool has_known_child(const Key& key) const {
    return std::ranges::any_of(known_, [&](const auto& item) {
      const Key& other = item.first;
      return other.first == key.first && other.second.size() > key.second.size() &&
             std::equal(key.second.begin(), key.second.end(), other.second.begin());
    });
  }

  // The evicted block must be the least recently used of those that could go.
  void forget(kv::BlockId block) {
    auto evicted = known_.end();
    std::int64_t oldest = clock_ + 1;
    for (auto it = known_.begin(); it != known_.end(); ++it) {
      if (it->second.block == block) evicted = it;
      if (holders_[static_cast<std::size_t>(it->second.block)] == 1 && !has_known_child(it->first))
        oldest = std::min(oldest, it->second.used);
    }
    demand(evicted != known_.end(), "only a known block is evicted");
    demand(holders_[static_cast<std::size_t>(block)] == 1, "only an idle block is evicted");
    demand(!has_known_child(evicted->first), "children are evicted before their parents");
    demand(evicted->second.used == oldest, "the least recently used block is evicted");
    known_.erase(evicted);
  }

  // A known block can go when neither it nor a known block behind it is held by anybody else.
  std::int64_t num_idle(const std::vector<std::int32_t>& holders) const {
    std::int64_t count = 0;
    for (const auto& [key, known] : known_) {
      bool stays = false;
      for (const auto& [other, child] : known_)
        if (holders[static_cast<std::size_t>(child.block)] > 1 && other.first == key.first &&
            other.second.size() >= key.second.size() &&
            std::equal(key.second.begin(), key.second.end(), other.second.begin()))
          stays = true;
      count += stays ? 0 : 1;
    }
    return count;
  }

  void check(const Sequence& s) const {
    const auto& blocks = s.table.blocks;
    demand(s.table.length == static_cast<std::int64_t>(s.tokens.size()), "length counts tokens");
    const std::int64_t num_full = kv::num_blocks_for(s.table.length, allocator.block_size());
    demand(num_full <= static_cast<std::int64_t>(blocks.size()), "the tokens fit the blocks");
    demand(std::set<kv::BlockId>(blocks.begin(), blocks.end()).size() == blocks.size(),
           "no block is twice in a table");
    for (std::size_t i = static_cast<std::size_t>(num_full); i < blocks.size(); ++i)
      demand(allocator.pool().num_holders(blocks[i]) == 1, "reserved blocks are not shared");
    for (std::int64_t t = 0; t < s.table.length; ++t)
      demand(memory_[static_cast<std::size_t>(s.table.slot(t))] ==
                 s.tokens[static_cast<std::size_t>(t)],
             "every token lies where the table says");
  }

  std::vector<std::int32_t> memory_;   // [num_blocks, block_size]
  std::vector<std::int32_t> holders_;  // [num_blocks] from the events alone
  std::map<Key, Known> known_;
  std::int64_t clock_ = 0;
};

}  // namespace kv_test
