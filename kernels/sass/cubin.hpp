// Reads a cubin, the ELF file that ptxas makes: the machine code of each kernel of one source file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace kv::sass {

/// One machine instruction: 128 bits on every architecture from 7.0 on.
struct Word {
  std::uint64_t low = 0;   ///< bits 0 to 63
  std::uint64_t high = 0;  ///< bits 64 to 127
};

/// One kernel: an instance of a template, or a kernel that is none.
struct KernelCode {
  std::string mangled;          ///< the name in the object file
  std::vector<Word> code;       ///< in order of address, 16 bytes each
  int max_threads_per_cta = 0;  ///< from __launch_bounds__; 0 when the source has none
};

/// The kernels of one cubin.
struct Cubin {
  int architecture = 0;             ///< e.g. 90 for sm_90
  std::vector<KernelCode> kernels;  ///< in the order of the file
};

/// \param bytes the file's content
/// \param file  its name, for errors
/// \throws InputError when this is no cubin, or one that ends early
Cubin parse_cubin(const std::string& bytes, const std::string& file);

/// \throws InputError as parse_cubin(), and when the file cannot be read
Cubin read_cubin(const std::filesystem::path& file);

/// \throws InputError when the file cannot be read
std::string read_text(const std::filesystem::path& file);

}  // namespace kv::sass
