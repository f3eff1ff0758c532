// Chapter 5, exercise write_slots: a kernel that writes new rows into their slots.
//
// A pass has computed num_rows new rows of K and of V, of all its sequences, each of row_elements
// numbers. slots[i] says where row i goes in the arrays k and v of the cache, which are
// [num_slots, row_elements]. A slot of -1 is padding: that row is neither read nor written.
//
// Write the kernel. A row is row_elements / kWidth pieces of kWidth elements. Each thread of the
// grid moves one piece, of K where blockIdx.y is 0, of V where it is 1: threads 0, 1, 2, ... those
// of row 0, then those of row 1, and so on. The last CTA may have more threads than there are
// pieces left. store_rounded<T, kWidth>(to, from) moves a piece.
//
// 7 points:
//   2  each row of K and of V goes to its slot
//   1  a row whose slot is -1 is dropped
//   1  slot 0 is a slot like any other
//   1  rows that are no multiple of 16 bytes are written too
//   2  each element is read once and written once
//
// Page:  chapters/05_paged_cache/README.md#the-mechanism
// Grade: ./kv grade 05_write_slots

#include "kv/exercise.hpp"

// New rows of K and V into their slots of a paged cache.
//
// What it shows:  a block table is read once a pass, by the host, to make the slot mapping; the
//                 kernel then knows no sequences, only rows and slots, and one launch serves all
//                 sequences of the pass. Rows are rounded on their way.
// Source:         Kwon et al. 2023, section 5.1 (fused reshape and block write).
//
// A slot of -1 is padding: its row is neither read nor written. Slot 0 is a slot like any other.
#include "cache/block_kernels.hpp"
#include "kernel.cuh"
#include "kv/check.hpp"
#include "vector_access.cuh"

namespace kv::KV_BACKEND {
namespace {

constexpr int kThreads = 256;

// kWidth elements at a time: those that 16 bytes of the cache hold, or single ones.
template <typename T, int kWidth>
__device__ inline void store_rounded(T* to, const float* from) {
  if constexpr (kWidth == 1) {
    *to = narrow<T>(*from);
  } else if constexpr (kWidth == 4) {
    *reinterpret_cast<float4*>(to) = *reinterpret_cast<const float4*>(from);
  } else {
    const float4 a = reinterpret_cast<const float4*>(from)[0];
    const float4 b = reinterpret_cast<const float4*>(from)[1];
    *reinterpret_cast<uint4*>(to) =
        make_uint4(pack<T>(a.x, a.y), pack<T>(a.z, a.w), pack<T>(b.x, b.y), pack<T>(b.z, b.w));
  }
}

// k_rows, v_rows [num_rows, row_elements] fp32; k, v [num_slots, row_elements] T; slots [num_rows]
// grid (pieces of all rows / 256, 2), CTA (256): a thread moves one piece of kWidth elements, of K
// or, in the second plane, of V
template <typename T, int kWidth>
__global__ void __launch_bounds__(kThreads)
    write_slots_kernel(const float* k_rows, const float* v_rows, const std::int64_t* slots, T* k,
                       T* v, std::int64_t num_rows, int row_elements) {
  KV_TODO();
}

template <typename T, int kWidth>
void launch_for(const WriteSlots& l) {
  const std::int64_t num_pieces = l.num_rows * (l.row_elements / kWidth);
  const std::int64_t num_ctas = (num_pieces + kThreads - 1) / kThreads;
  require(num_ctas < std::int64_t{1} << 31, "more rows than one launch can write");
  const auto kernel = write_slots_kernel<T, kWidth>;
  launch(kernel, dim3(static_cast<unsigned>(num_ctas), 2), kThreads, 0, l.stream, l.k_rows,
         l.v_rows, l.slots, static_cast<T*>(l.k), static_cast<T*>(l.v), l.num_rows, l.row_elements);
  check_cuda(cudaGetLastError(), "write_slots_kernel launch");
}

template <typename T>
void launch_for(const WriteSlots& l) {
  constexpr int kWidth = 16 / sizeof(T);
  if (l.row_elements % kWidth == 0) return launch_for<T, kWidth>(l);
  launch_for<T, 1>(l);
}

}  // namespace

void launch_write_slots(const WriteSlots& launch) {
  require(launch.num_rows >= 0 && launch.row_elements > 0, "rows have elements");
  if (launch.num_rows == 0) return;  // a grid may not be empty
  switch (launch.dtype) {
    case DType::f32:
      return launch_for<float>(launch);
    case DType::f16:
      return launch_for<f16>(launch);
    case DType::bf16:
      return launch_for<bf16>(launch);
    default:
      require(false, "a cache on a device holds fp32, fp16 or bf16");
  }
}

}  // namespace kv::KV_BACKEND
