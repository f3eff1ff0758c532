#include "symbols.hpp"

#include <cxxabi.h>
#include <elf.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <span>

namespace kv::emulator {

/// Its place in the block, known from the symbol table, tells where the block of a thread begins.
/// extern "C" for a name that needs no mangling.
extern "C" {
extern constinit thread_local char kv_emulator_anchor;
constinit thread_local char kv_emulator_anchor = 0;
}

namespace {

struct FunctionSymbol {
  std::uintptr_t begin = 0;
  std::size_t bytes = 0;
  std::string mangled;
};

struct Program {
  std::string path;
  std::uintptr_t base = 0;  // what the loader added to the file's addresses
  SharedSymbols shared;
  std::size_t anchor_offset = 0;
  std::vector<FunctionSymbol> functions;  // ordered by address
  std::vector<std::pair<std::uintptr_t, std::uintptr_t>> constants;
};

std::string demangle(const std::string& mangled) {
  int status = 0;
  std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status), std::free);
  return status == 0 ? text.get() : mangled;
}

// "kv::checked::(anonymous namespace)::f(int)::tile" -> "tile"
std::string last_name(const std::string& full) {
  const std::size_t colon = full.rfind("::");
  return colon == std::string::npos ? full : full.substr(colon + 2);
}

// Kernel files live in these two namespaces, and nothing else does.
bool is_of_a_kernel(const char* mangled) {
  return std::strstr(mangled, "2kv7checked") || std::strstr(mangled, "2kv8emulated");
}

void take_symbol(Program& program, const ElfW(Sym) & symbol, const char* name) {
  const int type = ELF64_ST_TYPE(symbol.st_info);
  if (symbol.st_shndx == SHN_UNDEF) return;
  if (type == STT_FUNC) {
    program.functions.push_back({program.base + symbol.st_value, symbol.st_size, name});
  } else if (type == STT_TLS && std::strcmp(name, "kv_emulator_anchor") == 0) {
    program.anchor_offset = symbol.st_value;
    program.shared.known = true;
  } else if (type == STT_TLS && is_of_a_kernel(name)) {
    const std::string text = last_name(demangle(name));
    if (text != "smem")  // dynamic shared memory has its own rules
      program.shared.arrays.push_back({text, symbol.st_value, symbol.st_size});
  }
}

void read_symbol_table(Program& program) {
  std::ifstream in(program.path, std::ios::binary);
  std::vector<char> file((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  if (file.size() < sizeof(ElfW(Ehdr))) return;
  const auto* header = reinterpret_cast<const ElfW(Ehdr)*>(file.data());
  const auto* sections = reinterpret_cast<const ElfW(Shdr)*>(file.data() + header->e_shoff);
  for (int i = 0; i < header->e_shnum; ++i) {
    if (sections[i].sh_type != SHT_SYMTAB) continue;
    const char* names = file.data() + sections[sections[i].sh_link].sh_offset;
    const auto* symbols = reinterpret_cast<const ElfW(Sym)*>(file.data() + sections[i].sh_offset);
    const std::size_t count = sections[i].sh_size / sizeof(ElfW(Sym));
    for (std::size_t k = 0; k < count; ++k)
      take_symbol(program, symbols[k], names + symbols[k].st_name);
  }
  std::sort(program.functions.begin(), program.functions.end(),
            [](const auto& a, const auto& b) { return a.begin < b.begin; });
  auto& arrays = program.shared.arrays;
  std::sort(arrays.begin(), arrays.end(),
            [](const auto& a, const auto& b) { return a.offset < b.offset; });
}

// The first object of the loader's list is the program itself.
int read_headers(dl_phdr_info* info, std::size_t, void* data) {
  auto& program = *static_cast<Program*>(data);
  program.base = info->dlpi_addr;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    if (segment.p_type == PT_TLS) program.shared.block_bytes = segment.p_memsz;
    if (segment.p_type == PT_LOAD && !(segment.p_flags & PF_W)) {
      const std::uintptr_t begin = program.base + segment.p_vaddr;
      program.constants.emplace_back(begin, begin + segment.p_memsz);
    }
    // Constants that the loader had to relocate are read-only from then on.
    if (segment.p_type == PT_GNU_RELRO) {
      const std::uintptr_t begin = program.base + segment.p_vaddr;
      program.constants.emplace_back(begin, begin + segment.p_memsz);
    }
  }
  return 1;
}

Program read_program() {
  Program program;
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof(path));
  if (length > 0) program.path.assign(path, static_cast<std::size_t>(length));
  dl_iterate_phdr(read_headers, &program);
  read_symbol_table(program);
  return program;
}

const Program& program() {
  static const Program instance = read_program();
  return instance;
}

// "dir/file.cu:31 (discriminator 2)"; "??:0" where nothing is known.
SourceLine parse_line(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos || text[0] == '?') return {};
  return {text.substr(0, colon), std::atoi(text.c_str() + colon + 1)};
}

using KnownLines = std::map<std::uintptr_t, std::vector<SourceLine>>;

// One process for many addresses: it reads the whole program anew each time it starts. Every answer
// begins with its address (-a).
void ask_addr2line(std::span<const std::uintptr_t> addresses, KnownLines& known) {
  std::string command = "addr2line -a -i -e '" + program().path + "'";
  for (const std::uintptr_t address : addresses) {
    char text[24];
    std::snprintf(text, sizeof(text), " 0x%zx", static_cast<std::size_t>(address - program().base));
    command += text;
    known[address];  // also what has no answer is known from now on
  }
  command += " 2>/dev/null";
  std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  char line[4096];
  std::size_t num_begun = 0;
  while (pipe && std::fgets(line, sizeof(line), pipe.get())) {
    if (std::strncmp(line, "0x", 2) == 0) {
      ++num_begun;
      continue;
    }
    SourceLine parsed = parse_line(line);
    if (parsed.line > 0 && num_begun > 0 && num_begun <= addresses.size())
      known[addresses[num_begun - 1]].push_back(std::move(parsed));
  }
}

std::mutex known_lines_mutex;
KnownLines& known_lines() {
  static KnownLines known;
  return known;
}

}  // namespace

const SharedSymbols& shared_symbols() { return program().shared; }

std::uintptr_t thread_local_block() {
  return reinterpret_cast<std::uintptr_t>(&kv_emulator_anchor) - program().anchor_offset;
}

std::string function_name(const void* address) {
  const auto key = reinterpret_cast<std::uintptr_t>(address);
  const auto& functions = program().functions;
  auto it = std::upper_bound(functions.begin(), functions.end(), key,
                             [](std::uintptr_t a, const auto& f) { return a < f.begin; });
  if (it == functions.begin()) return "kernel";
  --it;
  if (key >= it->begin + std::max<std::size_t>(it->bytes, 1)) return "kernel";
  std::string full = demangle(it->mangled);
  // "void kv::checked::scale_kernel<4>(float*)" -> "scale_kernel<4>"
  for (const char* prefix : {"void ", "kv::checked::", "kv::emulated::", "(anonymous namespace)::"})
    if (full.starts_with(prefix)) full.erase(0, std::strlen(prefix));
  return full.substr(0, full.find('('));
}

void learn_source_lines(std::span<const std::uintptr_t> addresses) {
  constexpr std::size_t kMostAtOnce = 2000;  // a command may have some 100,000 characters
  const std::lock_guard lock(known_lines_mutex);
  std::vector<std::uintptr_t> unknown;
  for (const std::uintptr_t address : addresses)
    if (!known_lines().contains(address)) unknown.push_back(address);
  std::ranges::sort(unknown);
  unknown.erase(std::ranges::unique(unknown).begin(), unknown.end());
  for (std::size_t at = 0; at < unknown.size(); at += kMostAtOnce)
    ask_addr2line(std::span(unknown).subspan(at, std::min(kMostAtOnce, unknown.size() - at)),
                  known_lines());
}

std::vector<SourceLine> source_lines(std::uintptr_t address) {
  learn_source_lines({&address, 1});
  const std::lock_guard lock(known_lines_mutex);
  return known_lines().at(address);
}

bool is_program_constant(std::uintptr_t address) {
  for (const auto& [begin, end] : program().constants)
    if (address >= begin && address < end) return true;
  return false;
}

}  // namespace kv::emulator
