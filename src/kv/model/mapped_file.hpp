// A regular file, mapped read-only into memory.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace kv {

/// Maps a whole file for reading; the pages are loaded when they are first touched.
///
/// The file must not shrink while it is mapped: the operating system answers a read past the new
/// end with SIGBUS, which this course does not handle.
class MappedFile {
 public:
  /// \param path  a regular, readable, non-empty file
  /// \throws InputError naming the path when it is missing, unreadable, empty or no regular file
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  /// Every byte of the file; starts at a page boundary.
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace kv
