// The layout of the file is ELF's (System V ABI, chapters 4 and 5), as <elf.h> declares it. What
// NVIDIA adds to it is known from the output of its disassembler, nvdisasm:
//   .text.NAME     the code of kernel NAME
//   .nv.info.NAME  attributes: format, number, then a 16-bit value or the length of what follows
#include "sass/cubin.hpp"

#include <elf.h>

#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <string_view>

#include "kv/check.hpp"

namespace kv::sass {
namespace {

constexpr int kMachineCuda = 190;                 // EM_CUDA
constexpr std::uint8_t kFormatWithLength = 4;     // EIFMT_SVAL
constexpr std::uint8_t kAttributeMaxThreads = 5;  // EIATTR_MAX_THREADS: three 32-bit extents
constexpr int kAbiOfToolkit13 = 8;  // from here on the flags hold the number in bits 8 to 15

/// Bounds-checked access: the file may be damaged or cut.
class Bytes {
 public:
  Bytes(std::string_view bytes, const std::string& file) : bytes_(bytes), file_(file) {}

  template <typename T>
  T at(std::uint64_t offset) const {
    T value;
    std::memcpy(&value, part(offset, sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::string_view part(std::uint64_t offset, std::uint64_t size) const {
    if (offset > bytes_.size() || size > bytes_.size() - offset)
      throw InputError(file_ + ": ends before what its headers promise; build it again");
    return bytes_.substr(offset, size);
  }
  std::string_view name(std::uint64_t offset) const {
    const std::string_view rest =
        part(offset, bytes_.size() - std::min<std::uint64_t>(offset, bytes_.size()));
    return rest.substr(0, rest.find('\0'));
  }
  std::uint64_t size() const { return bytes_.size(); }

 private:
  std::string_view bytes_;
  const std::string& file_;
};

int max_threads(const Bytes& info) {
  std::uint64_t offset = 0;
  while (offset + 4 <= info.size()) {
    const auto format = info.at<std::uint8_t>(offset);
    const auto attribute = info.at<std::uint8_t>(offset + 1);
    const auto length = info.at<std::uint16_t>(offset + 2);
    offset += 4;
    if (format != kFormatWithLength) continue;
    if (attribute == kAttributeMaxThreads) {
      std::uint64_t threads = 1;
      for (int axis = 0; axis < 3; ++axis) threads *= info.at<std::uint32_t>(offset + 4 * axis);
      return static_cast<int>(threads);
    }
    offset += length;
  }
  return 0;
}

std::vector<Word> words(std::string_view code) {
  std::vector<Word> result(code.size() / sizeof(Word));
  if (!result.empty()) std::memcpy(result.data(), code.data(), result.size() * sizeof(Word));
  return result;
}

}  // namespace

Cubin parse_cubin(const std::string& bytes, const std::string& file) {
  const Bytes elf(bytes, file);
  const auto header = elf.at<Elf64_Ehdr>(0);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_machine != kMachineCuda)
    throw InputError(file + ": is no cubin; build it with nvcc -cubin");

  Cubin cubin;
  const bool new_flags = header.e_ident[EI_ABIVERSION] >= kAbiOfToolkit13;
  cubin.architecture = static_cast<int>((header.e_flags >> (new_flags ? 8 : 0)) & 0xff);

  const auto section = [&](int i) {
    return elf.at<Elf64_Shdr>(header.e_shoff + std::uint64_t{header.e_shentsize} * i);
  };
  const auto content = [&](const Elf64_Shdr& s) { return elf.part(s.sh_offset, s.sh_size); };
  const Bytes names(content(section(header.e_shstrndx)), file);

  std::map<std::string, int, std::less<>> threads;
  for (int i = 0; i < header.e_shnum; ++i) {
    const Elf64_Shdr s = section(i);
    const std::string_view name = names.name(s.sh_name);
    if (name.starts_with(".text.")) {
      cubin.kernels.push_back({std::string(name.substr(6)), words(content(s)), 0});
    } else if (name.starts_with(".nv.info.")) {
      threads[std::string(name.substr(9))] = max_threads(Bytes(content(s), file));
    }
  }
  for (KernelCode& kernel : cubin.kernels) {
    const auto found = threads.find(kernel.mangled);
    if (found != threads.end()) kernel.max_threads_per_cta = found->second;
  }
  return cubin;
}

std::string read_text(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream content;
  if (!in || !(content << in.rdbuf()))
    throw InputError(file.string() + ": cannot be read; build the target cubins");
  return std::move(content).str();
}

Cubin read_cubin(const std::filesystem::path& file) {
  return parse_cubin(read_text(file), file.string());
}

}  // namespace kv::sass
