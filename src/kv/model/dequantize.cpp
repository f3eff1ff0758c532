// The block formats, one function each, written to be read.
//
// A block holds 32 (or 256) small integers q and what turns them into numbers again: a scale d, and
// in some formats a minimum m or smaller scales for parts of the block. d and m are IEEE halves.
//
// Every product below is exact in float (a half has 11 significant bits, the integers few), so at
// most one rounding happens, in the final sum, and the results are the same on every machine.
//
// Source: the block layouts of ggml (ggml-common.h, ggml-quants.c).
#include "kv/model/dequantize.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "kv/check.hpp"

namespace kv {
namespace {

/// Byte `i` as a number from 0 to 255.
int u8(const std::byte* p, int i = 0) { return std::to_integer<int>(p[i]); }

/// Byte `i` as a number from -128 to 127.
int i8(const std::byte* p, int i = 0) { return static_cast<std::int8_t>(p[i]); }

/// The half at `p`, which need not be aligned.
float half(const std::byte* p) {
  f16 x;
  std::memcpy(&x, p, sizeof(x));
  return to_float(x);
}

/// Plain numbers, one per "block".
template <typename T>
void widen_number(const std::byte* p, float* out) {
  T x;
  std::memcpy(&x, p, sizeof(x));
  *out = to_float(x);
}

/// Q8_0: d | 32 signed bytes.  x = d q
void widen_q8_0(const std::byte* p, float* out) {
  const float d = half(p);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(i8(p + 2, i));
}

/// Q4_0: d | 16 bytes; elements 0-15 are the low halves, 16-31 the high ones.  x = d (q - 8)
void widen_q4_0(const std::byte* p, float* out) {
  const float d = half(p);
  for (int i = 0; i < 16; ++i) {
    const int pair = u8(p + 2, i);
    out[i] = d * static_cast<float>((pair & 15) - 8);
    out[i + 16] = d * static_cast<float>((pair >> 4) - 8);
  }
}

/// Q4_1: d | m | 16 bytes as in Q4_0.  x = d q + m
void widen_q4_1(const std::byte* p, float* out) {
  const float d = half(p);
  const float m = half(p + 2);
  for (int i = 0; i < 16; ++i) {
    const int pair = u8(p + 4, i);
    out[i] = d * static_cast<float>(pair & 15) + m;
    out[i + 16] = d * static_cast<float>(pair >> 4) + m;
  }
}

/// The 32 five-bit numbers of Q5_0 and Q5_1: 4 bytes with the fifth bit of each element (bit i
/// belongs to element i), then 16 bytes as in Q4_0.
std::array<int, 32> five_bits(const std::byte* p) {
  std::uint32_t high;
  std::memcpy(&high, p, sizeof(high));
  std::array<int, 32> q;
  for (int i = 0; i < 16; ++i) {
    const int pair = u8(p + 4, i);
    q[i] = (pair & 15) | static_cast<int>((high >> i) & 1u) << 4;
    q[i + 16] = (pair >> 4) | static_cast<int>((high >> (i + 16)) & 1u) << 4;
  }
  return q;
}

/// Q5_0: d | five-bit numbers.  x = d (q - 16)
void widen_q5_0(const std::byte* p, float* out) {
  const float d = half(p);
  const std::array<int, 32> q = five_bits(p + 2);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(q[i] - 16);
}

/// Q5_1: d | m | five-bit numbers.  x = d q + m
void widen_q5_1(const std::byte* p, float* out) {
  const float d = half(p);
  const float m = half(p + 2);
  const std::array<int, 32> q = five_bits(p + 4);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(q[i]) + m;
}

/// Q4_K: d | m | 12 bytes with eight 6-bit scales s and eight 6-bit minima t | 128 bytes.
/// The 256 elements are 8 parts of 32, each with its own s and t.  x = (d s) q - (m t)
void widen_q4_k(const std::byte* p, float* out) {
  const float d = half(p);
  const float m = half(p + 2);
  const std::byte* packed = p + 4;
  const std::byte* quants = p + 16;
  for (int part = 0; part < 8; ++part) {
    // Parts 0-3: six bits in place. Parts 4-7: four bits in the last 4 bytes, the upper two bits
    // in what parts 0-3 leave free at the top of their bytes.
    int s = 0, t = 0;
    if (part < 4) {
      s = u8(packed, part) & 63;
      t = u8(packed, part + 4) & 63;
    } else {
      s = (u8(packed, part + 4) & 15) | (u8(packed, part - 4) >> 6) << 4;
      t = (u8(packed, part + 4) >> 4) | (u8(packed, part) >> 6) << 4;
    }
    // Parts 2n and 2n + 1 share 32 bytes: the low halves and the high ones.
    const int shift = part % 2 * 4;
    const float scale = d * static_cast<float>(s);
    const float minimum = m * static_cast<float>(t);
    for (int i = 0; i < 32; ++i) {
      const int q = (u8(quants, part / 2 * 32 + i) >> shift) & 15;
      out[part * 32 + i] = scale * static_cast<float>(q) - minimum;
    }
  }
}

/// Q6_K: 128 bytes with the low 4 bits | 64 bytes with the high 2 bits | 16 signed scales s | d.
/// The 256 elements are 2 halves of 4 parts of 32; every 16 have their own s.  x = (d s) (q - 32)
void widen_q6_k(const std::byte* p, float* out) {
  const std::byte* scales = p + 192;
  const float d = half(p + 208);
  for (int part = 0; part < 8; ++part) {
    const std::byte* low = p + part / 4 * 64 + part % 2 * 32;  // parts 0, 2 share bytes; 1, 3 too
    const std::byte* high = p + 128 + part / 4 * 32;           // all four parts share bytes
    const int low_shift = part % 4 / 2 * 4;
    const int high_shift = part % 4 * 2;
    for (int i = 0; i < 32; ++i) {
      const int q = ((u8(low, i) >> low_shift) & 15) | ((u8(high, i) >> high_shift) & 3) << 4;
      const float scale = d * static_cast<float>(i8(scales, part * 2 + i / 16));
      out[part * 32 + i] = scale * static_cast<float>(q - 32);
    }
  }
}

using WidenBlock = void (*)(const std::byte*, float*);

WidenBlock widen_block(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return widen_number<float>;
    case DType::f16:
      return widen_number<f16>;
    case DType::bf16:
      return widen_number<bf16>;
    case DType::q4_0:
      return widen_q4_0;
    case DType::q4_1:
      return widen_q4_1;
    case DType::q5_0:
      return widen_q5_0;
    case DType::q5_1:
      return widen_q5_1;
    case DType::q8_0:
      return widen_q8_0;
    case DType::q4_k:
      return widen_q4_k;
    case DType::q6_k:
      return widen_q6_k;
  }
  return nullptr;
}

constexpr std::size_t kMaxBlockElements = 256;

}  // namespace

void dequantize_blocks(DType dtype, const std::byte* blocks, std::span<float> out) {
  const WidenBlock widen = widen_block(dtype);
  require(widen != nullptr, "the storage format must be a known one");
  const DTypeInfo format = info(dtype);
  const auto block_elements = static_cast<std::size_t>(format.block_elements);
  require(out.size() % block_elements == 0, "only whole blocks can be widened");
  for (std::size_t first = 0; first < out.size(); first += block_elements) {
    widen(blocks, out.data() + first);
    blocks += format.block_bytes;
  }
}

void dequantize_row(const WeightMatrix& w, std::int64_t row, std::span<float> out) {
  require(row >= 0 && row < w.num_rows, "row must be in [0, num_rows)");
  require(static_cast<std::int64_t>(out.size()) == w.num_cols, "out must hold num_cols floats");
  dequantize_blocks(w.dtype, w.row(row), out);
}

void dequantize_range(const WeightMatrix& w, std::int64_t row, std::int64_t first_col,
                      std::span<float> out) {
  require(row >= 0 && row < w.num_rows, "row must be in [0, num_rows)");
  const auto length = static_cast<std::int64_t>(out.size());
  require(first_col >= 0 && length <= w.num_cols && first_col <= w.num_cols - length,
          "the columns must lie in [0, num_cols)");
  const DTypeInfo format = info(w.dtype);
  require(format.block_elements > 0, "the storage format must be a known one");

  // Block by block through a buffer: the range may begin and end inside a block.
  std::array<float, kMaxBlockElements> buffer;
  for (std::int64_t done = 0; done < length;) {
    const std::int64_t block = (first_col + done) / format.block_elements;
    const std::int64_t inside = (first_col + done) % format.block_elements;
    const std::int64_t count = std::min(length - done, format.block_elements - inside);
    dequantize_blocks(w.dtype, w.row(row) + block * format.block_bytes,
                      std::span(buffer).first(static_cast<std::size_t>(format.block_elements)));
    std::copy_n(buffer.begin() + inside, count, out.begin() + done);
    done += count;
  }
}

}  // namespace kv
