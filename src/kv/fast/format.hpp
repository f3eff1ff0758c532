// What each storage format brings to a product: dot products with its rows, and plain widening.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "kv/check.hpp"
#include "kv/fast/dot.hpp"

namespace kv::fast {

/// Rows of x that meet a group of weight rows at a time, at most: 4 x 5 sums and what they need fit
/// 32 registers, 4 x 3 fit 16.
inline constexpr int kDotRows = simd::kWidth == 16 ? 5 : 3;

/// Dot products of some weight rows with rows of x from `first_x` on.
using Dot = void (*)(const DotRows& rows, const DotInput& in, std::int64_t first_x);

/// One storage format. Entry n - 1 of a table takes n rows of x.
struct Format {
  std::array<Dot, kDotRows> dot_group;  ///< with kDotWeightRows rows of weights
  std::array<Dot, kDotRows> dot_one;    ///< with one
  /// Widens `count` elements of a row from element `first` on.
  void (*widen)(const std::byte* row, std::int64_t first, std::int64_t count, float* out);
  bool has_offset;  ///< DotInput::block_sums is needed
};

/// The tables of plain floats.
template <class T, int kW>
constexpr std::array<Dot, kDotRows> floats_dots() {
  return []<int... kX>(std::integer_sequence<int, kX...>) {
    return std::array<Dot, kDotRows>{dot_floats<T, kW, kX + 1>...};
  }
  (std::make_integer_sequence<int, kDotRows>());
}

/// The tables of quantised blocks.
template <class Reader, int kW>
constexpr std::array<Dot, kDotRows> blocks_dots() {
  return []<int... kX>(std::integer_sequence<int, kX...>) {
    return std::array<Dot, kDotRows>{dot_blocks<Reader, kW, kX + 1>...};
  }
  (std::make_integer_sequence<int, kDotRows>());
}

/// Rows of plain floats.
template <class T>
constexpr Format floats_format() {
  return {floats_dots<T, kDotWeightRows>(), floats_dots<T, 1>(), readers::widen_floats<T>, false};
}

/// Rows of quantised blocks.
template <class Reader>
constexpr Format blocks_format() {
  return {blocks_dots<Reader, kDotWeightRows>(), blocks_dots<Reader, 1>(),
          readers::widen_blocks<Reader>, Reader::kHasOffset};
}

/// \throws std::invalid_argument for a format that is none
inline Format format_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return floats_format<float>();
    case DType::f16:
      return floats_format<f16>();
    case DType::bf16:
      return floats_format<bf16>();
    case DType::q4_0:
      return blocks_format<readers::Q4_0>();
    case DType::q4_1:
      return blocks_format<readers::Q4_1>();
    case DType::q5_0:
      return blocks_format<readers::Q5_0>();
    case DType::q5_1:
      return blocks_format<readers::Q5_1>();
    case DType::q8_0:
      return blocks_format<readers::Q8_0>();
    case DType::q4_k:
      return blocks_format<readers::Q4_K>();
    case DType::q6_k:
      return blocks_format<readers::Q6_K>();
  }
  require(false, "linear: unknown weight format");
  return {};
}

}  // namespace kv::fast
