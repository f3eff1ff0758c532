// Reading and writing .npz: arrays for numpy.load().
//
// An .npz file is a ZIP archive of .npy files. Only what numpy.savez() makes is needed here:
// members that are stored, not compressed. Source: numpy.lib.format (the .npy format, version 1.0);
// PKWARE APPNOTE.TXT 6.3.10, sections 4.3.7 (local header), 4.3.12 (central directory), 4.3.16 (end
// of it) and 4.4.7 (CRC-32).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kv {

/// One array: little-endian, row-major.
struct NpzArray {
  std::string name;                 ///< without ".npy"
  std::string type;                 ///< as numpy writes it: "<f4", "<f2", "<u2", "<i4" or "<i8"
  std::vector<std::int64_t> shape;  ///< outermost first
  std::vector<std::byte> data;      ///< elements

  /// Product of the shape.
  std::int64_t num_elements() const;
};

/// An array of numbers as they lie in memory.
/// \param name   of the array in the file
/// \param type   NumPy's name of the element's type; must have the size of T
/// \param shape  extents, slowest first; their product is the number of values
/// \param values row-major
template <typename T>
NpzArray npz_array(std::string name, std::string type, std::vector<std::int64_t> shape,
                   std::span<const T> values) {
  const auto bytes = std::as_bytes(values);
  return {std::move(name), std::move(type), std::move(shape), {bytes.begin(), bytes.end()}};
}

/// CRC-32 of ZIP (polynomial 0xEDB88320, reflected).
std::uint32_t crc32(std::span<const std::byte> bytes);

/// The text of an archive, for write_file_atomically().
/// \throws InputError when it would need more than 4 GiB, which needs an extension of ZIP
std::string npz_text(std::span<const NpzArray> arrays);

/// Reads an archive that lies in memory.
///
/// \param bytes the whole file
/// \param path  its name, for messages
/// \throws InputError, one line, when it is cut, damaged, compressed, or holds anything but arrays
///         of the types above
std::vector<NpzArray> read_npz(std::span<const std::byte> bytes, std::string_view path);

}  // namespace kv
