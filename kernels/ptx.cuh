// Thin wrappers of PTX instructions, named after them.
//
// Under nvcc each is one instruction; under the emulator each is a warp operation with the same
// layout of fragments. All 32 lanes of the warp must call the matrix functions together.
// Source: PTX ISA, sections "ldmatrix", "mma", "cp.async".
#pragma once

/// \cond
#ifdef __CUDACC__
#define KV_PTX_SITE
#else
#include "emulator/tensor_core.hpp"
#define KV_PTX_SITE , const char *file = __builtin_FILE(), int line = __builtin_LINE()
#endif
/// \endcond

namespace kv::KV_BACKEND {

#ifdef __CUDACC__

/// The 32-bit address of a pointer to shared memory.
__device__ inline unsigned shared_address(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

/// Four 8x8 matrices of 16-bit elements. Lane i gives row i % 8 of matrix i / 8 (16 bytes, aligned)
/// and receives in r[m] the elements 2 * (i % 4) and the next of row i / 4 of matrix m.
__device__ inline void ldmatrix_x4(unsigned (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}

/// The same with every matrix transposed: r[m] of lane i comes from column i / 4 of matrix m; `row`
/// as before.
__device__ inline void ldmatrix_x4_trans(unsigned (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}

/// Two matrices, into r[0] and r[1]; lanes 0 to 15 each give a `row`.
__device__ inline void ldmatrix_x2(unsigned (&r)[2], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(shared_address(row))
               : "memory");
}

/// Two matrices, transposed, into r[0] and r[1]; lanes 0 to 15 each give a `row`.
__device__ inline void ldmatrix_x2_trans(unsigned (&r)[2], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(shared_address(row))
               : "memory");
}

/// d += a b for a [16, 16] and b [16, 8] in bf16, d in fp32, spread over the warp. From compute
/// capability 8.0 on.
__device__ inline void mma_m16n8k16_bf16(float (&d)[4], const unsigned (&a)[4],
                                         const unsigned (&b)[2]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
  __trap();  // a launcher must not let it come to this
#else
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

/// d += a b in fp16, laid out as for bf16. Compute capability 7.5 has the half of it, m16n8k8:
/// there it is two of them.
__device__ inline void mma_m16n8k16_f16(float (&d)[4], const unsigned (&a)[4],
                                        const unsigned (&b)[2]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
  for (int i = 0; i < 2; ++i)
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[2 * i]), "r"(a[2 * i + 1]), "r"(b[i]));
#else
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

/// Starts a copy of 16 bytes from `global` to `shared` memory, past the L1 cache, of which the
/// first `valid_bytes` are read and the rest become zeros. Below compute capability 8.0 it is an
/// ordinary copy.
__device__ inline void cp_async_16(void* shared, const void* global, unsigned valid_bytes = 16) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
  __pipeline_memcpy_async(shared, global, 16, 16 - valid_bytes);
#else
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(shared_address(shared)), "l"(__cvta_generic_to_global(global)),
                 "r"(valid_bytes)
               : "memory");
#endif
}

/// Closes the group of the copies since the last call.
__device__ inline void cp_async_commit() { __pipeline_commit(); }

/// Waits until at most `kPending` groups of this thread are under way.
template <int kPending>
__device__ inline void cp_async_wait() {
  __pipeline_wait_prior(kPending);
}

/// 2^x, with the hardware's approximation: at most 2 units in the last place, subnormals are 0.
__device__ inline float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

#else

inline void ldmatrix(unsigned* r, const void* row, int num_matrices, bool transposed,
                     emulator::Site site) {
  const emulator::LoadMatrix in{row, num_matrices, transposed};
  emulator::warp_collective(emulator::Collective::load_matrix, 0xffffffffu, &in, r, site);
}
inline void ldmatrix_x4(unsigned (&r)[4], const void* row KV_PTX_SITE) {
  ldmatrix(r, row, 4, false, {file, line});
}
inline void ldmatrix_x4_trans(unsigned (&r)[4], const void* row KV_PTX_SITE) {
  ldmatrix(r, row, 4, true, {file, line});
}
inline void ldmatrix_x2(unsigned (&r)[2], const void* row KV_PTX_SITE) {
  ldmatrix(r, row, 2, false, {file, line});
}
inline void ldmatrix_x2_trans(unsigned (&r)[2], const void* row KV_PTX_SITE) {
  ldmatrix(r, row, 2, true, {file, line});
}
inline void mma_m16n8k16_bf16(float (&d)[4], const unsigned (&a)[4],
                              const unsigned (&b)[2] KV_PTX_SITE) {
  const emulator::MultiplyFragments in{a, b, d};
  emulator::warp_collective(emulator::Collective::multiply_bf16, 0xffffffffu, &in, d, {file, line});
}
inline void mma_m16n8k16_f16(float (&d)[4], const unsigned (&a)[4],
                             const unsigned (&b)[2] KV_PTX_SITE) {
  const emulator::MultiplyFragments in{a, b, d};
  emulator::warp_collective(emulator::Collective::multiply_f16, 0xffffffffu, &in, d, {file, line});
}
inline void cp_async_16(void* shared, const void* global, unsigned valid_bytes = 16 KV_PTX_SITE) {
  emulator::copy_async(shared, global, 16, 16 - valid_bytes, {file, line});
}
inline void cp_async_commit() { emulator::commit_copies(); }
template <int kPending>
void cp_async_wait() {
  emulator::wait_for_copies(kPending);
}
inline float exp2_approx(float x) { return exp2f(x); }

#endif

}  // namespace kv::KV_BACKEND
