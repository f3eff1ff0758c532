// A team of threads that stays alive between parallel sections.
#pragma once

#include <functional>

namespace kv {

/// Runs `task(thread, num_threads)` once on every thread of the process-wide team, the caller
/// being thread 0, and returns when all are done. Workers spin briefly after a section, then
/// sleep. An exception of a task is rethrown in the caller. Calls must not nest.
void parallel(const std::function<void(int thread, int num_threads)>& task);

/// Threads of the team; by default the processors this process may use.
int num_threads();

/// \param count at least 1; takes effect at once
void set_num_threads(int count);

}  // namespace kv
