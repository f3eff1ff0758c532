#include "gpu/limits.hpp"

#include "kv/check.hpp"

namespace kv_bench {

const LimitKernels& limit_kernels(kv::Backend backend) {
#ifdef KV_HAVE_GPU_KERNELS
  if (backend == kv::Backend::gpu) return kv::gpu::limit_kernels();
#endif
  kv::require(backend == kv::Backend::emulated || backend == kv::Backend::checked,
              "this program has no kernels for the device");
  return backend == kv::Backend::checked ? kv::checked::limit_kernels()
                                         : kv::emulated::limit_kernels();
}

}  // namespace kv_bench
