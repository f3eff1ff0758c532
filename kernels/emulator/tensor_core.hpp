// Operands of the warp-wide matrix operations, as the wrappers of ptx.cuh hand them over.
#pragma once

#include <cstdint>

#include "collectives.hpp"
#include "site.hpp"

namespace kv::emulator {

/// One lane's part of ldmatrix: rows of 8x8 matrices of 16-bit elements in shared memory.
struct LoadMatrix {
  const void* row = nullptr;  ///< 16 bytes: row lane % 8 of matrix lane / 8
  int num_matrices = 4;       ///< 1, 2 or 4; lanes past 8 * num_matrices give no row
  bool transposed = false;    ///< every matrix is
};

/// One lane's fragments of mma.m16n8k16; the accumulator is both input and output.
struct MultiplyFragments {
  const unsigned* a = nullptr;   ///< 4 registers
  const unsigned* b = nullptr;   ///< 2 registers
  float* accumulator = nullptr;  ///< 4 registers
};

}  // namespace kv::emulator
