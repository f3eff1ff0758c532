// A team of threads that stays alive between parallel sections.
#pragma once

#include <cstdint>
#include <functional>

namespace kv {

/// Runs `task(thread, num_threads)` once on every thread of the process-wide team, the caller
/// being thread 0, and returns when all are done. Workers spin briefly after a section, then
/// sleep. An exception of a task is rethrown in the caller. Calls must not nest.
void parallel(const std::function<void(int thread, int num_threads)>& task);

/// Shares [0, count) out: every thread runs body(begin, end) on a part of its own, one after the
/// other of about equal size.
///
/// \param count things to do
/// \param cost  multiplications in all; the caller does few of them alone, because waking the team
///              takes longer, and a thread that the system holds up would hold up the rest
/// \param body  not called on an empty part
void parallel_ranges(std::int64_t count, std::int64_t cost,
                     const std::function<void(std::int64_t begin, std::int64_t end)>& body);

/// Threads of the team; by default the processors this process may use.
int num_threads();

/// \param count at least 1; takes effect at once
void set_num_threads(int count);

}  // namespace kv
