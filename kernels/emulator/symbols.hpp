// The program's own symbol table and line table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace kv::emulator {

/// A thread-local array of a kernel file: a static `__shared__` variable.
struct SharedSymbol {
  std::string name;        ///< without namespaces and function
  std::size_t offset = 0;  ///< in the thread-local block of the program
  std::size_t bytes = 0;   ///< size
};

/// What the symbol table says about static shared memory.
struct SharedSymbols {
  std::vector<SharedSymbol> arrays;  ///< ordered by offset
  std::size_t block_bytes = 0;       ///< the whole thread-local block
  bool known = false;                ///< false: the program is stripped
};

/// Read once; without a symbol table there are no arrays.
const SharedSymbols& shared_symbols();

/// \return this thread's copy of the thread-local block, as an address
std::uintptr_t thread_local_block();

/// \return the demangled name of the function that starts at (or contains) `address`
std::string function_name(const void* address);

/// One call of a stack of inlined functions, innermost first.
struct SourceLine {
  std::string file;  ///< as the compiler was given it
  int line = 0;      ///< from 1
};

/// Asks addr2line for the source of instructions, all in one go, and remembers the answers: then
/// source_lines() does not have to ask for each.
void learn_source_lines(std::span<const std::uintptr_t> addresses);

/// The source of an instruction. Slow where it has to be asked for, so only for reports.
/// \return empty when there is no debug information or no addr2line
std::vector<SourceLine> source_lines(std::uintptr_t address);

/// \return whether the address lies in constants of the program
bool is_program_constant(std::uintptr_t address);

}  // namespace kv::emulator
