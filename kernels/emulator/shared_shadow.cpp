#include "shared_shadow.hpp"

#include <algorithm>
#include <bit>
#include <string>

#include "scheduler.hpp"

namespace kv::emulator {

void SharedShadow::begin_launch(std::size_t bytes, unsigned num_threads) {
  const std::size_t num_words = (bytes + 3) / 4;
  if (words_.size() < num_words) words_.resize(num_words);
  if (seen_.size() < num_threads) seen_.resize(num_threads);
}

void SharedShadow::begin_cta() {
  cta_epoch_ = ++epoch_;
  num_splits_ = 0;
  for (auto& clocks : seen_) clocks.fill(0);
  for (std::size_t i = 0; i < seen_.size(); ++i) seen_[i][i % kWarpSize] = 1;
}

// Each lane now comes after everything that any of them came after.
void SharedShadow::warp_sync(unsigned first_thread, unsigned lanes) {
  std::array<std::uint32_t, kWarpSize> joined{};
  for (unsigned i = 0; i < kWarpSize; ++i) {
    if (!(lanes >> i & 1)) continue;
    const auto& clocks = seen_[first_thread + i];
    for (unsigned k = 0; k < kWarpSize; ++k) joined[k] = std::max(joined[k], clocks[k]);
  }
  for (unsigned i = 0; i < kWarpSize; ++i) {
    if (!(lanes >> i & 1)) continue;
    seen_[first_thread + i] = joined;
    ++seen_[first_thread + i][i];
  }
}

bool SharedShadow::ordered_write(const Cell& cell, unsigned thread) const {
  if (cell.write_epoch != epoch_ || cell.write_thread == thread) return true;
  if (cell.write_thread / kWarpSize != thread / kWarpSize) return false;
  return seen_[thread][cell.write_thread % kWarpSize] >= cell.write_clock;
}

// The lanes whose access does not come before `thread` by any barrier.
std::uint32_t SharedShadow::unordered(const Lanes& lanes, unsigned thread) const {
  if (lanes.epoch != epoch_ || lanes.mask == 0) return 0;
  if (lanes.warp != thread / kWarpSize) return lanes.mask;
  std::uint32_t mask = 0;
  for (unsigned i = 0; i < kWarpSize; ++i)
    if ((lanes.mask >> i & 1) && seen_[thread][i] < lanes.clock) mask |= 1u << i;
  return mask & ~(1u << thread % kWarpSize);
}

void SharedShadow::remember(Lanes (&slots)[2], unsigned thread, Where where) {
  const unsigned warp = thread / kWarpSize;
  const unsigned lane = thread % kWarpSize;
  const std::uint32_t clock = seen_[thread][lane];
  Lanes* slot = nullptr;
  for (Lanes& candidate : slots)
    if (candidate.epoch == epoch_ && candidate.warp == warp) slot = &candidate;
  if (slot && slot->clock == clock && unordered(*slot, thread) != 0) {
    slot->mask |= 1u << lane;  // beside the others
    return;
  }
  // Clocks differ only after a partial __syncwarp: then keep the later ones, which is enough
  // against false alarms.
  if (slot && slot->clock > clock) return;
  for (Lanes& candidate : slots)
    if (!slot && candidate.epoch != epoch_) slot = &candidate;
  if (slot) *slot = {where, epoch_, clock, 1u << lane, warp};
}

void SharedShadow::report_race(const Current& now, const Cell& cell, const Lanes* lanes,
                               const char* other_did) {
  const unsigned other =
      lanes ? lanes->warp * kWarpSize + std::countr_zero(unordered(*lanes, now.thread))
            : cell.write_thread;
  const char* did = now.kind == AccessKind::read    ? "reads"
                    : now.kind == AccessKind::write ? "writes"
                                                    : "updates atomically";
  const bool same_warp = other / kWarpSize == now.thread / kWarpSize;
  now.worker.record(Fault::race, now.thread, now.where,
                    Text("%s %s (byte %zu), which $other %s at $2; no %s orders the two", did,
                         now.subject.array, now.subject.offset, other_did,
                         same_warp ? "__syncwarp or __syncthreads" : "__syncthreads"),
                    lanes ? lanes->where : cell.writer, other);
}

void SharedShadow::touch(Cell& cell, const Current& now) {
  if (cell.pending >= cta_epoch_) {
    now.worker.record(Fault::async_copy, now.thread, now.where,
                      Text("touches %s (byte %zu) while the asynchronous copy that $other started "
                           "at $2 is under way: it has not waited for its group",
                           now.subject.array, now.subject.offset),
                      cell.writer, cell.write_thread);
    return;
  }
  if (!ordered_write(cell, now.thread)) report_race(now, cell, nullptr, "wrote");
  if (now.kind != AccessKind::atomic)
    for (const Lanes& lanes : cell.atomics)
      if (unordered(lanes, now.thread)) report_race(now, cell, &lanes, "updated atomically");
  if (now.kind != AccessKind::read)
    for (const Lanes& lanes : cell.readers)
      if (unordered(lanes, now.thread)) report_race(now, cell, &lanes, "read");
  if (now.kind != AccessKind::write && cell.written < cta_epoch_)
    now.worker.record(Fault::uninitialized_read, now.thread, now.where,
                      Text("reads %s (byte %zu), which no thread of this CTA has written",
                           now.subject.array, now.subject.offset));
  if (now.kind == AccessKind::read) {
    remember(cell.readers, now.thread, now.where);
  } else if (now.kind == AccessKind::atomic) {
    remember(cell.atomics, now.thread, now.where);
    cell.written = epoch_;
  } else {
    cell.writer = now.where;
    cell.write_epoch = epoch_;
    cell.write_clock = seen_[now.thread][now.thread % kWarpSize];
    cell.write_thread = now.thread;
    cell.written = epoch_;
    for (Lanes& lanes : cell.readers) lanes.mask = 0;
  }
}

std::array<SharedShadow::Cell, 4>& SharedShadow::split(Word& word) {
  if (!is_split(word)) {
    if (num_splits_ == splits_.size()) splits_.emplace_back();
    word.split = num_splits_++;
    word.split_epoch = epoch_;
    splits_[word.split].fill(word.cell);
  }
  return splits_[word.split];
}

// Calls function(cell, byte) for the cells of a range, whole words where nothing is smaller.
template <typename Function>
void SharedShadow::for_cells(std::size_t offset, std::size_t bytes, Function function) {
  for (std::size_t byte = offset; byte < offset + bytes;) {
    Word& word = words_[byte / 4];
    const std::size_t in_word = byte % 4;
    const std::size_t count = std::min(offset + bytes - byte, 4 - in_word);
    if (count == 4 && !is_split(word)) {
      function(word.cell, byte);
    } else {
      auto& cells = split(word);
      for (std::size_t i = 0; i < count; ++i) function(cells[in_word + i], byte + i);
    }
    byte += count;
  }
}

void SharedShadow::access(Worker& worker, unsigned thread, std::size_t offset, std::size_t bytes,
                          AccessKind kind, Where where, Subject subject) {
  Current now{worker, thread, kind, where, subject};
  for_cells(offset, bytes, [&](Cell& cell, std::size_t byte) {
    now.subject.offset = subject.offset + (byte - offset);
    touch(cell, now);
  });
}

void SharedShadow::set_pending(std::size_t offset, std::size_t bytes) {
  for_cells(offset, bytes, [&](Cell& cell, std::size_t) { cell.pending = epoch_; });
}

void SharedShadow::arrived(unsigned thread, std::size_t offset, std::size_t bytes, Where where) {
  for_cells(offset, bytes, [&](Cell& cell, std::size_t) {
    cell.pending = 0;
    cell.writer = where;
    cell.write_epoch = epoch_;
    cell.write_clock = seen_[thread][thread % kWarpSize];
    cell.write_thread = thread;
    cell.written = epoch_;
  });
}

}  // namespace kv::emulator
