// The storage of dynamic shared memory, under the name that kernel files declare it by:
// `extern __shared__ unsigned char smem[]`. One copy per operating-system thread, so one per CTA
// in flight; pages that no kernel touches cost nothing.
#include "cuda.hpp"
#include "scheduler.hpp"

namespace kv::emulated {
/// Dynamic shared memory of the fast build.
__shared__ unsigned char smem[kv::emulator::kMaxSharedBytes] __align__(128);
}  // namespace kv::emulated

namespace kv::checked {
/// Dynamic shared memory of the checked build.
__shared__ unsigned char smem[kv::emulator::kMaxSharedBytes] __align__(128);
}  // namespace kv::checked

namespace kv::emulator {

unsigned char* dynamic_shared(bool checked) { return checked ? checked::smem : emulated::smem; }

bool is_builtin_variable(std::uintptr_t address) {
  return address - reinterpret_cast<std::uintptr_t>(&builtins) < sizeof(builtins);
}

}  // namespace kv::emulator
