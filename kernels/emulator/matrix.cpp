// Source of the fragment layouts: PTX ISA, "Matrix Fragments for mma.m16n8k16" and "ldmatrix".
#include "matrix.hpp"

#include <cstring>

#include "checker.hpp"
#include "kv/dtype.hpp"
#include "tensor_core.hpp"

namespace kv::emulator {
namespace {

constexpr int kRows = 8;  // of an 8x8 matrix of 16-bit elements; a row is 16 bytes

float widen(unsigned bits, bool is_bf16) {
  const auto half = static_cast<std::uint16_t>(bits);
  return is_bf16 ? to_float(bf16{half}) : to_float(f16{half});
}

const LoadMatrix& operand(Worker& worker, unsigned thread) {
  return *static_cast<const LoadMatrix*>(worker.thread(thread).in);
}

}  // namespace

// Lane i gives the address of row i % 8 of matrix i / 8. Lane i receives, of each matrix, the
// elements 2 * (i % 4) and the next of row i / 4; transposed, of column i / 4.
void load_matrix(Worker& worker, unsigned first) {
  const int num_matrices = operand(worker, first).num_matrices;
  const bool transposed = operand(worker, first).transposed;
  std::uint16_t element[4][kRows][kRows];
  for (int i = 0; i < num_matrices * kRows; ++i) {
    const void* row = operand(worker, first + i).row;
    const Where where(worker.thread(first + i).site);
    // The row counts as read by the lane that gave its address.
    check_row(worker, worker.thread(first + i), row, where);
    std::memcpy(element[i / kRows][i % kRows], row, sizeof(element[0][0]));
  }
  for (unsigned lane = 0; lane < kWarpSize; ++lane) {
    auto* registers = static_cast<unsigned*>(worker.thread(first + lane).out);
    const unsigned line = lane / 4;
    const unsigned pair = lane % 4 * 2;
    for (int m = 0; m < num_matrices; ++m) {
      const unsigned low = transposed ? element[m][pair][line] : element[m][line][pair];
      const unsigned high = transposed ? element[m][pair + 1][line] : element[m][line][pair + 1];
      registers[m] = low | high << 16;
    }
  }
}

// D = A B + D with A [16, 16], B [16, 8], D [16, 8]. With group = lane / 4, pair = 2 * (lane % 4):
//   a0: A[group][pair..]      a1: A[group + 8][pair..]
//   a2: A[group][pair + 8..]  a3: A[group + 8][pair + 8..]
//   b0: B[pair..][group]      b1: B[pair + 8..][group]
//   d0, d1: D[group][pair..]  d2, d3: D[group + 8][pair..]
void multiply(Worker& worker, unsigned first, bool is_bf16) {
  float a[16][16];
  float b[8][16];  // by column, so that the loop over k runs along memory
  float d[16][8];
  for (unsigned lane = 0; lane < kWarpSize; ++lane) {
    const auto& fragments = *static_cast<const MultiplyFragments*>(worker.thread(first + lane).in);
    const unsigned group = lane / 4;
    const unsigned pair = lane % 4 * 2;
    for (unsigned half = 0; half < 2; ++half) {
      const unsigned shift = 16 * half;
      for (unsigned r = 0; r < 4; ++r)
        a[group + 8 * (r % 2)][pair + 8 * (r / 2) + half] = widen(fragments.a[r] >> shift, is_bf16);
      for (unsigned r = 0; r < 2; ++r)
        b[group][pair + 8 * r + half] = widen(fragments.b[r] >> shift, is_bf16);
    }
    for (unsigned r = 0; r < 4; ++r)
      d[group + 8 * (r / 2)][pair + r % 2] = fragments.accumulator[r];
  }
  for (int row = 0; row < 16; ++row)
    for (int column = 0; column < 8; ++column) {
      // Products of 16-bit floats are exact in fp32. The order of the sum is ours: hardware sums
      // several products at once and cuts off low bits.
      float sum = 0.0f;
      for (int k = 0; k < 16; ++k) sum += a[row][k] * b[column][k];
      d[row][column] += sum;
    }
  for (unsigned lane = 0; lane < kWarpSize; ++lane) {
    const auto& fragments = *static_cast<const MultiplyFragments*>(worker.thread(first + lane).in);
    for (unsigned r = 0; r < 4; ++r)
      fragments.accumulator[r] = d[lane / 4 + 8 * (r / 2)][lane % 4 * 2 + r % 2];
  }
}

}  // namespace kv::emulator
