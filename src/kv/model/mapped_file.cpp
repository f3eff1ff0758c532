#include "kv/model/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "kv/check.hpp"

namespace kv {
namespace {

/// A file descriptor that closes itself; the mapping outlives it.
struct Descriptor {
  int fd = -1;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

}  // namespace

MappedFile::MappedFile(const std::string& path) {
  // O_NONBLOCK: opening a FIFO for reading would otherwise wait for a writer, perhaps for ever.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0)
    throw InputError(path + ": cannot open: " + std::strerror(errno) +
                     "; check the path and its permissions");
  struct stat status = {};
  if (::fstat(file.fd, &status) != 0)
    throw InputError(path + ": cannot read its size: " + std::strerror(errno) +
                     "; check the file system");
  if (S_ISDIR(status.st_mode)) throw InputError(path + ": is a directory; name the file inside it");
  if (!S_ISREG(status.st_mode))
    throw InputError(path + ": is not a regular file; copy it to one first");
  if (status.st_size == 0) throw InputError(path + ": is empty; download or write it again");
  if (static_cast<std::uintmax_t>(status.st_size) > SIZE_MAX)
    throw InputError(path + ": is too large for this machine's address space; use a smaller file");

  const std::size_t size = static_cast<std::size_t>(status.st_size);
  void* start = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (start == MAP_FAILED)
    throw InputError(path + ": cannot map into memory: " + std::strerror(errno) +
                     "; free memory or raise the limit on address space");
  bytes_ = {static_cast<const std::byte*>(start), size};
}

MappedFile::~MappedFile() { ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size()); }

}  // namespace kv
