// Constants that the writer and the reader of .npz share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

/// Details of the .npz format.
namespace kv::npz {

inline constexpr std::string_view kNpyMagic = "\x93NUMPY";
inline constexpr std::uint32_t kLocalHeader = 0x04034b50;
inline constexpr std::uint32_t kDirectoryEntry = 0x02014b50;
inline constexpr std::uint32_t kDirectoryEnd = 0x06054b50;

/// Bytes of an element of a type; 0 for a type that is not known here.
constexpr std::size_t type_bytes(std::string_view type) {
  if (type == "<f4" || type == "<i4") return 4;
  if (type == "<f2" || type == "<u2") return 2;
  if (type == "<i8") return 8;
  return 0;
}

}  // namespace kv::npz
