#include "kv/report/output_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "kv/check.hpp"

namespace kv {
namespace {

// Where the text goes. `fd` is a temporary file that will be renamed, or the device itself.
struct Output {
  std::string option, path;  // as the user gave them
  std::string target;        // what a link points at
  std::string temporary;     // empty for a device
  int fd = -1;

  Output(std::string_view option_name, const std::string& user_path);
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;
  ~Output() {
    if (fd >= 0) ::close(fd);
    if (!temporary.empty()) ::unlink(temporary.c_str());
  }

  [[noreturn]] void fail(const char* why) const {
    throw InputError(option + ": cannot write '" + path + "': " + why);
  }
  [[noreturn]] void fail() const { fail(std::strerror(errno)); }
};

Output::Output(std::string_view option_name, const std::string& user_path)
    : option(option_name), path(user_path) {
  if (path.empty()) fail("the path is empty");
  // Replace what a link points at, not the link.
  std::error_code error;
  target = std::filesystem::weakly_canonical(path, error).string();
  if (error || target.empty()) target = path;

  struct stat status = {};
  const bool exists = ::stat(target.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) fail("it is a directory");
  // A rename would replace even a file that is protected against writing.
  if (exists && ::access(target.c_str(), W_OK) != 0) fail();
  if (exists && !S_ISREG(status.st_mode)) {
    // A named pipe that nobody reads would block for ever; O_NONBLOCK makes that an error.
    fd = ::open(target.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) fail();
    ::fcntl(fd, F_SETFL, 0);  // from here on a slow reader is waited for
    return;
  }
  std::string name = target + ".XXXXXX";
  fd = ::mkstemp(name.data());
  if (fd < 0) fail();
  temporary = name;
  // mkstemp makes private files; give this one the rights of the old file, or the usual ones.
  const mode_t mask = ::umask(0);
  ::umask(mask);
  if (::fchmod(fd, exists ? status.st_mode & 07777 : 0666 & ~mask) != 0) {
    const int reason = errno;
    ::close(fd);
    ::unlink(temporary.c_str());
    errno = reason;
    fail();
  }
}

void write_all(const Output& output, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(output.fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) output.fail();
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace

std::string csv_row(const std::vector<std::string>& cells) {
  // A record of one empty cell would be an empty line, which readers skip.
  if (cells.size() == 1 && cells[0].empty()) return "\"\"\n";
  std::string out;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (i > 0) out += ',';
    if (cells[i].find_first_of(",\"\r\n") == std::string::npos) {
      out += cells[i];
      continue;
    }
    out += '"';
    for (const char c : cells[i]) {
      if (c == '"') out += '"';
      out += c;
    }
    out += '"';
  }
  return out + "\n";
}

std::vector<std::string> csv_cells(std::string_view line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '"') {
      // Two in a row stand for one.
      if (quoted && i + 1 < line.size() && line[i + 1] == '"')
        cells.back() += line[++i];
      else
        quoted = !quoted;
    } else if (c == ',' && !quoted) {
      cells.emplace_back();
    } else {
      cells.back() += c;
    }
  }
  return cells;
}

void write_file_atomically(std::string_view option, const std::string& path,
                           std::string_view text) {
  Output output(option, path);
  write_all(output, text);
  if (output.temporary.empty()) return;
  // On the disk before the rename, so that a crash cannot leave the new name with no content.
  if (::fsync(output.fd) != 0) output.fail();
  if (::rename(output.temporary.c_str(), output.target.c_str()) != 0) output.fail();
  output.temporary.clear();
}

void check_writable(std::string_view option, const std::string& path) {
  const Output output(option, path);
}

}  // namespace kv
