// Kernels with one planted bug each. The marks (@name) name the lines that a report must name.
#include "kernel.cuh"
#include "kernels.hpp"
#include "vector_access.cuh"

namespace kv::KV_BACKEND {

// CUDA's own way to dynamic shared memory, which wants a named namespace.
__global__ void past_requested_bytes_kernel(float* out) {
  extern __shared__ __align__(16) unsigned char smem[];
  auto* tile = reinterpret_cast<float*>(smem);
  tile[threadIdx.x] = 0.0f;  // @past_requested_bytes
  out[threadIdx.x] = tile[threadIdx.x];
}

namespace {

constexpr unsigned kAllLanes = 0xffffffffu;

// ---- Races in shared memory ----

__global__ void missing_barrier_kernel(float* out) {
  __shared__ float tile[64];
  const int i = threadIdx.x;
  tile[i] = static_cast<float>(i);  // @missing_barrier.write
  out[i] = tile[63 - i];            // @missing_barrier.read
}

__global__ void missing_barrier_of_vectors_kernel(float* out) {
  __shared__ __align__(16) float tile[64][4];
  const int i = threadIdx.x;
  const float mine[4] = {1.0f, 2.0f, 3.0f, 4.0f};
  store_vector(tile[i], mine);  // @vectors.write
  float other[4];
  load_vector(other, tile[63 - i]);  // @vectors.read
  out[i] = other[0];
}

__global__ void missing_barrier_before_overwrite_kernel(float* out) {
  __shared__ float tile[64];
  const int i = threadIdx.x;
  float sum = 0.0f;
  for (int round = 0; round < 2; ++round) {
    tile[i] = static_cast<float>(i + round);  // @overwrite.write
    __syncthreads();
    sum += tile[63 - i];  // @overwrite.read
  }
  out[i] = sum;
}

__global__ void missing_warp_sync_kernel(float* out) {
  __shared__ float slots[32];
  const int lane = threadIdx.x;
  slots[lane] = static_cast<float>(lane);  // @warp_sync.write
  __shfl_sync(kAllLanes, lane, 0);         // exchanges a value, orders no memory
  out[lane] = slots[lane ^ 1];             // @warp_sync.read
}

__global__ void write_write_kernel(float* out) {
  __shared__ float total;
  total = static_cast<float>(threadIdx.x);  // @write_write
  __syncthreads();
  out[threadIdx.x] = total;
}

__global__ void atomic_and_plain_kernel(float* out) {
  __shared__ int count;
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  atomicAdd(&count, 1);                          // @atomic_and_plain.atomic
  out[threadIdx.x] = static_cast<float>(count);  // @atomic_and_plain.read
}

// Neighbouring bytes of one word may be written by different threads; the same byte may not.
__global__ void byte_race_kernel(float* out) {
  __shared__ unsigned char bytes[64];
  const int i = threadIdx.x;
  bytes[i] = 1;
  __syncthreads();
  bytes[i ^ 1] = 2;           // @byte_race.all
  if (i == 40) bytes[8] = 3;  // @byte_race.one
  __syncthreads();
  out[i] = bytes[i];
}

// ---- Reads of what nobody wrote ----

__global__ void never_written_kernel(float* out) {
  __shared__ float tile[64];
  const int i = threadIdx.x;
  if (i < 63) tile[i] = 1.0f;
  __syncthreads();
  out[i] = tile[i];  // @never_written
}

__global__ void read_before_add_kernel(float* out) {
  auto* sums = dynamic_shared<float>();
  const int i = threadIdx.x;
  sums[i] += 1.0f;  // @read_before_add
  __syncthreads();
  out[i] = sums[i];
}

// ---- Out of bounds and misaligned ----

__global__ void out_of_shared_array_kernel(float* out, int index) {
  __shared__ float tile[32];
  tile[threadIdx.x] = 0.0f;
  __syncthreads();
  if (threadIdx.x == 7) tile[index] = 1.0f;  // @out_of_shared_array
  out[threadIdx.x] = tile[threadIdx.x];
}

__global__ void out_of_shared_pointer_kernel(float* out) {
  __shared__ float tile[32];
  tile[threadIdx.x] = 0.0f;
  __syncthreads();
  const float* pointer = tile;
  // Far from every array, whichever way the linker has laid them out.
  if (threadIdx.x == 7) out[0] = pointer[static_cast<long>(out[0])];  // @out_of_shared_pointer
}

__global__ void global_offset_kernel(float* out, long offset) {
  if (threadIdx.x == 3) out[offset] = 1.0f;  // @global_offset
}

__global__ void global_any_kernel(const float* in, float* out) {
  out[threadIdx.x] = in[threadIdx.x];  // @global_any
}

__global__ void misaligned_global_kernel(float* out) {
  const int i = threadIdx.x;
  if (i == 0) *reinterpret_cast<float4*>(out + 2) = make_float4(1, 2, 3, 4);  // @misaligned_global
}

__global__ void misaligned_shared_kernel(float* out) {
  auto* words = dynamic_shared<float>();
  for (int i = 0; i < 64; ++i) words[i] = 0.0f;
  const float4 four = *reinterpret_cast<float4*>(words + 1 + threadIdx.x);  // @misaligned_shared
  out[0] = four.x + four.y + four.z + four.w;
}

// ---- Asynchronous copies ----

__global__ void copy_not_waited_kernel(const float* in, float* out) {
  __shared__ __align__(16) float tile[128];
  const int i = threadIdx.x;
  cp_async_16(tile + 4 * i, in + 4 * i);  // @copy_not_waited.copy
  cp_async_commit();
  __syncthreads();
  out[i] = tile[4 * i];  // @copy_not_waited.read
}

__global__ void copy_waited_one_short_kernel(const float* in, float* out) {
  __shared__ __align__(16) float tile[2][128];
  const int i = threadIdx.x;
  for (int stage = 0; stage < 2; ++stage) {
    cp_async_16(tile[stage] + 4 * i, in + stage * 128 + 4 * i);  // @copy_one_short.copy
    cp_async_commit();
  }
  cp_async_wait<1>();
  __syncthreads();
  out[i] = tile[1][4 * i];  // @copy_one_short.read
}

__global__ void copy_without_barrier_kernel(const float* in, float* out) {
  __shared__ __align__(16) float tile[256];
  const int i = threadIdx.x;
  cp_async_16(tile + 4 * i, in + 4 * i);  // @copy_no_barrier.copy
  cp_async_commit();
  cp_async_wait<0>();
  out[i] = tile[255 - 4 * i];  // @copy_no_barrier.read
}

__global__ void copy_into_used_tile_kernel(const float* in, float* out) {
  __shared__ __align__(16) float tile[256];
  const int i = threadIdx.x;
  for (int k = i; k < 256; k += 64) tile[k] = 1.0f;
  __syncthreads();
  out[i] = tile[255 - 4 * i];             // @copy_used_tile.read
  cp_async_16(tile + 4 * i, in + 4 * i);  // @copy_used_tile.copy
  cp_async_commit();
  cp_async_wait<0>();
}

// ---- Barriers and warp operations ----

__global__ void barrier_in_branch_kernel(float* out) {
  if (threadIdx.x < 40) __syncthreads();  // @barrier_in_branch
  out[threadIdx.x] = 1.0f;
}

__global__ void two_barriers_kernel(float* out) {
  if (threadIdx.x < 32) {
    __syncthreads();  // @two_barriers.a
  } else {
    __syncthreads();  // @two_barriers.b
  }
  out[threadIdx.x] = 1.0f;
}

__global__ void early_return_kernel(float* out) {
  if (threadIdx.x >= 50) return;
  __syncthreads();  // @early_return
  out[threadIdx.x] = 1.0f;
}

__global__ void lane_not_in_mask_kernel(float* out) {
  const int lane = threadIdx.x;
  const unsigned mask = lane == 9 ? 0xfffffdffu : kAllLanes;
  out[lane] = __shfl_xor_sync(mask, 1.0f, 1);  // @lane_not_in_mask
}

__global__ void shuffle_from_outside_kernel(float* out) {
  const int lane = threadIdx.x;
  if (lane < 16) out[lane] = __shfl_xor_sync(0x0000ffffu, 1.0f, 16);  // @shuffle_from_outside
}

__global__ void different_operations_kernel(float* out) {
  const int lane = threadIdx.x;
  if (lane < 16) {
    out[lane] = __shfl_xor_sync(kAllLanes, 1.0f, 1);  // @different_operations.a
  } else {
    out[lane] = static_cast<float>(__ballot_sync(kAllLanes, 1));  // @different_operations.b
  }
}

__global__ void different_masks_kernel(float* out) {
  const int lane = threadIdx.x;
  const unsigned mask = lane < 20 ? kAllLanes : 0xfffffffeu;
  out[lane] = __shfl_xor_sync(mask, 1.0f, 1);  // @different_masks
}

__global__ void barrier_against_shuffle_kernel(float* out) {
  if (threadIdx.x < 16) {
    __syncthreads();  // @barrier_against_shuffle.barrier
  } else {
    out[threadIdx.x] = __shfl_xor_sync(kAllLanes, 1.0f, 1);  // @barrier_against_shuffle.shuffle
  }
}

__global__ void matrix_in_part_of_warp_kernel(float* out) {
  if (threadIdx.x == 31) return;
  float d[4] = {};
  const unsigned a[4] = {};
  const unsigned b[2] = {};
  mma_m16n8k16_bf16(d, a, b);  // @matrix_in_part_of_warp
  out[threadIdx.x] = d[0];
}

// ---- No end ----

__global__ void spin_kernel(float* out) {
  auto* flag = reinterpret_cast<volatile float*>(out);
  while (*flag != 1.0f) {  // @spin
  }
}

__global__ void spin_on_atomic_kernel(int* flag) {
  while (atomicCAS(flag, 1, 2) != 1) {  // @spin_on_atomic
  }
}

__global__ void local_of_another_kernel(float* out) {
  __shared__ float* pointer;
  float mine = 1.0f;
  if (threadIdx.x == 0) pointer = &mine;
  __syncthreads();
  if (threadIdx.x == 1) out[0] = *pointer;  // @local_of_another
  __syncthreads();
  out[1] = mine;
}

__global__ void empty_kernel() {}

void launch_too_much_shared(std::size_t bytes, bool allowed) {
  if (allowed) (void)allow_shared(empty_kernel, bytes);
  launch(empty_kernel, 1, 32, bytes, nullptr);  // @too_much_shared
}

// Most kernels need one CTA of 64 threads and one array.
template <void (*kKernel)(float*)>
void launch_64(float* out) {
  const auto kernel = kKernel;
  launch(kernel, 1, 64, 0, nullptr, out);
}

template <void (*kKernel)(float*)>
void launch_32(float* out) {
  const auto kernel = kKernel;
  launch(kernel, 1, 32, 0, nullptr, out);
}

template <void (*kKernel)(const float*, float*), int kThreads>
void launch_copy(const float* in, float* out) {
  const auto kernel = kKernel;
  launch(kernel, 1, kThreads, 0, nullptr, in, out);
}

FaultyKernels make_table() {
  FaultyKernels t{};
  t.missing_barrier = launch_64<missing_barrier_kernel>;
  t.missing_barrier_of_vectors = launch_64<missing_barrier_of_vectors_kernel>;
  t.missing_barrier_before_overwrite = launch_64<missing_barrier_before_overwrite_kernel>;
  t.missing_warp_sync = launch_32<missing_warp_sync_kernel>;
  t.write_write = launch_64<write_write_kernel>;
  t.atomic_and_plain = launch_64<atomic_and_plain_kernel>;
  t.byte_race = launch_64<byte_race_kernel>;
  t.never_written = launch_64<never_written_kernel>;
  t.read_before_add = [](float* out) { launch(read_before_add_kernel, 1, 64, 256, nullptr, out); };
  t.out_of_shared_array = [](float* out, int index) {
    launch(out_of_shared_array_kernel, 1, 32, 0, nullptr, out, index);
  };
  t.out_of_shared_pointer = launch_32<out_of_shared_pointer_kernel>;
  t.past_requested_bytes = [](float* out) {
    launch(past_requested_bytes_kernel, 1, 64, 63 * sizeof(float), nullptr, out);
  };
  t.global_offset = [](float* out, long offset) {
    launch(global_offset_kernel, 1, 32, 0, nullptr, out, offset);
  };
  t.global_any = launch_copy<global_any_kernel, 32>;
  t.misaligned_global = launch_32<misaligned_global_kernel>;
  t.misaligned_shared = [](float* out) {
    launch(misaligned_shared_kernel, 1, 1, 256, nullptr, out);
  };
  t.copy_not_waited = launch_copy<copy_not_waited_kernel, 32>;
  t.copy_waited_one_short = launch_copy<copy_waited_one_short_kernel, 32>;
  t.copy_without_barrier = launch_copy<copy_without_barrier_kernel, 64>;
  t.copy_into_used_tile = launch_copy<copy_into_used_tile_kernel, 64>;
  t.barrier_in_branch = launch_64<barrier_in_branch_kernel>;
  t.two_barriers = launch_64<two_barriers_kernel>;
  t.early_return = launch_64<early_return_kernel>;
  t.lane_not_in_mask = launch_32<lane_not_in_mask_kernel>;
  t.shuffle_from_outside = launch_32<shuffle_from_outside_kernel>;
  t.different_operations = launch_32<different_operations_kernel>;
  t.different_masks = launch_32<different_masks_kernel>;
  t.barrier_against_shuffle = launch_32<barrier_against_shuffle_kernel>;
  t.matrix_in_part_of_warp = launch_32<matrix_in_part_of_warp_kernel>;
  t.spin = launch_32<spin_kernel>;
  t.spin_on_atomic = [](int* flag) { launch(spin_on_atomic_kernel, 1, 64, 0, nullptr, flag); };
  t.local_of_another = launch_32<local_of_another_kernel>;
  t.too_much_shared = launch_too_much_shared;
  t.too_many_threads = [](unsigned threads) {
    launch(empty_kernel, 1, threads, 0, nullptr);  // @too_many_threads
  };
  t.launch_twice_unchecked = [] {
    launch(empty_kernel, 1, 2048, 0, nullptr);
    launch(empty_kernel, 1, 32, 0, nullptr);  // @launch_twice_unchecked
  };
  return t;
}

}  // namespace

const FaultyKernels& faulty_kernels() {
  static const FaultyKernels table = make_table();
  return table;
}

}  // namespace kv::KV_BACKEND
