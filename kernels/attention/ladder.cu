// The ladder as a table: one entry a step, in order.
#include "attention/arrays.cuh"

namespace kv::KV_BACKEND {

const AttentionKernels& attention_kernels() {
  static const AttentionKernels kernels = {{launch_two_pass, launch_online, launch_tiled,
                                            launch_tensor_core, launch_split_kv, launch_grouped,
                                            launch_paged}};
  return kernels;
}

}  // namespace kv::KV_BACKEND
