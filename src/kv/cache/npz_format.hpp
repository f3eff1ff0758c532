// Constants that the writer and the reader of .npz share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

/// Details of the .npz format.
namespace kv::npz {

/// What a .npy file begins with.
inline constexpr std::string_view kNpyMagic = "\x93NUMPY";
/// What stands before each file of a zip archive.
inline constexpr std::uint32_t kLocalHeader = 0x04034b50;
/// What an entry of the archive's directory begins with.
inline constexpr std::uint32_t kDirectoryEntry = 0x02014b50;
/// What the directory's end begins with.
inline constexpr std::uint32_t kDirectoryEnd = 0x06054b50;

/// Bytes of an element of a type; 0 for a type that is not known here.
constexpr std::size_t type_bytes(std::string_view type) {
  if (type == "<f4" || type == "<i4") return 4;
  if (type == "<f2" || type == "<u2") return 2;
  if (type == "<i8") return 8;
  return 0;
}

}  // namespace kv::npz
