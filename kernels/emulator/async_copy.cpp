#include "async_copy.hpp"

#include <cstring>

#include "checker.hpp"
#include "scheduler.hpp"

namespace kv::emulator {
namespace {

void arrive(Worker& worker, const PendingCopy& copy) {
  const std::size_t copied = copy.bytes - copy.zero_bytes;
  std::memcpy(copy.shared, copy.global, copied);
  std::memset(static_cast<char*>(copy.shared) + copied, 0, copy.zero_bytes);
  if (Checker* checker = worker.checker())
    checker->copy_arrived(worker.thread(), copy.shared, static_cast<std::uint32_t>(copy.bytes),
                          copy.where);
}

}  // namespace

void copy_async(void* shared, const void* global, std::size_t bytes, std::size_t zero_bytes,
                Site site) {
  Worker& worker = *Worker::running();
  const Where where(site);
  RuntimeScope scope(worker, where);
  Thread& thread = worker.thread();
  const auto address = reinterpret_cast<std::uintptr_t>(shared);
  if ((bytes != 4 && bytes != 8 && bytes != 16) || zero_bytes > bytes || address % bytes != 0)
    worker.fail(Fault::misaligned, thread.number, where,
                "an asynchronous copy moves 4, 8 or 16 bytes to an address that is a multiple");
  if (zero_bytes < bytes) {
    // The hardware wants the whole source aligned, and reads only what is not zero-filled.
    if (reinterpret_cast<std::uintptr_t>(global) % bytes != 0)
      worker.fail(Fault::misaligned, thread.number, where,
                  "the source of an asynchronous copy must be a multiple of its size");
    if (Checker* checker = worker.checker())
      checker->access(
          worker, thread,
          {reinterpret_cast<std::uintptr_t>(global), static_cast<std::uint32_t>(bytes - zero_bytes),
           AccessKind::read, false, where});
  }
  if (Checker* checker = worker.checker())
    checker->copy_started(worker, thread, shared, static_cast<std::uint32_t>(bytes), where);
  thread.copies.push_back({shared, global, bytes, zero_bytes, where});
}

void commit_copies() {
  Thread& thread = Worker::running()->thread();
  thread.copy_groups.push_back(thread.copies.size());
}

void wait_for_copies(int num_pending) {
  Worker& worker = *Worker::running();
  RuntimeScope scope(worker, Where());
  Thread& thread = worker.thread();
  const std::size_t num_groups = thread.copy_groups.size();
  const auto keep = std::min(num_groups, static_cast<std::size_t>(std::max(num_pending, 0)));
  if (num_groups == keep) return;
  const std::size_t num_arrived = thread.copy_groups[num_groups - keep - 1];
  for (std::size_t i = 0; i < num_arrived; ++i) arrive(worker, thread.copies[i]);
  thread.copies.erase(thread.copies.begin(),
                      thread.copies.begin() + static_cast<std::ptrdiff_t>(num_arrived));
  thread.copy_groups.erase(thread.copy_groups.begin(),
                           thread.copy_groups.end() - static_cast<std::ptrdiff_t>(keep));
  for (std::size_t& end : thread.copy_groups) end -= num_arrived;
}

}  // namespace kv::emulator
