// Asynchronous copies from global to shared memory (cp.async).
//
// The bytes arrive when the thread waits for their group, not earlier: a kernel that forgets to
// wait reads what was there before, here always and not only when a GPU is slow.
#pragma once

#include <cstddef>

#include "collectives.hpp"
#include "site.hpp"

namespace kv::emulator {

/// Starts a copy.
///
/// \param shared,global destination and source, both aligned to `bytes`
/// \param bytes         4, 8 or 16
/// \param zero_bytes    so many bytes at the end are zeros and are not read
/// \param site          the line of the kernel
void copy_async(void* shared, const void* global, std::size_t bytes, std::size_t zero_bytes,
                Site site);

/// Closes the group of the copies started since the last call.
void commit_copies();

/// Waits until at most `num_pending` groups of this thread are under way.
void wait_for_copies(int num_pending);

}  // namespace kv::emulator

// The names of the toolkit's <cuda_pipeline.h>, documented there.
/// \cond
inline void __pipeline_memcpy_async(void* shared, const void* global, std::size_t bytes,
                                    std::size_t zero_bytes = 0, KV_EMULATOR_HERE) {
  kv::emulator::copy_async(shared, global, bytes, zero_bytes, {file, line});
}
inline void __pipeline_commit() { kv::emulator::commit_copies(); }
inline void __pipeline_wait_prior(int num_pending) { kv::emulator::wait_for_copies(num_pending); }
/// \endcond
