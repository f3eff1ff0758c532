// What a machine instruction is, as far as the report asks.
//
// NVIDIA documents the names (CUDA Binary Utilities, "Instruction Set Reference"), not the bits.
// Those below were found by compiling code of known content, and are tested the same way for every
// architecture (tests/sass): code that is encoded in another way fails a test instead of being
// counted wrongly.
#pragma once

#include <cstdint>

#include "sass/cubin.hpp"

namespace kv::sass {

/// Opcodes: the low 9 bits of an instruction. The 3 bits above them say what kind the operands are
/// (register, constant, immediate), so one operation has several 12-bit codes.
enum class Opcode : std::uint16_t {
  fadd = 0x021,            ///< FADD: fp32 sum
  fmul = 0x020,            ///< FMUL: fp32 product
  ffma = 0x023,            ///< FFMA: fp32 a * b + c, rounded once
  ldmatrix = 0x03b,        ///< LDSM
  mma = 0x03c,             ///< HMMA: tensor cores on 16-bit floats
  special = 0x108,         ///< MUFU: ex2, rcp and relatives
  nop = 0x118,             ///< NOP: not counted
  wait_for_group = 0x11a,  ///< DEPBAR.LE: waits until at most N groups of copies are pending
  barrier = 0x11d,         ///< BAR: __syncthreads
  branch = 0x147,          ///< BRA
  exit = 0x14d,            ///< EXIT: ends the thread
  ret = 0x150,             ///< RET: back from a call
  load_global = 0x181,     ///< LDG
  load_generic = 0x180,    ///< LD: the compiler did not know the space
  load_local = 0x183,      ///< LDL: from stack or spills
  load_shared = 0x184,     ///< LDS
  store_global = 0x186,    ///< STG
  store_local = 0x187,     ///< STL: to stack or spills
  store_shared = 0x188,    ///< STS
  shuffle = 0x189,         ///< SHFL: between lanes of a warp
  copy_async = 0x1ae,      ///< LDGSTS: cp.async
  close_group = 0x1af,     ///< LDGDEPBAR: cp.async.commit_group
};

/// The low nine bits, which say what it does.
inline Opcode opcode(const Word& word) { return static_cast<Opcode>(word.low & 0x1ff); }

/// Bytes that one thread moves with a load, store or asynchronous copy: 1, 2, 4, 8 or 16.
///
/// \param word         such an instruction
/// \param architecture as in Cubin: 10.0 changed the encoding of asynchronous copies
int access_bytes(const Word& word, int architecture);

/// LDG and LDGSTS.
bool reads_global(const Word& word);

/// \return whether the branch may also not be taken
bool is_conditional(const Word& branch);

/// Where a branch goes.
///
/// \param branch       a word with the opcode branch
/// \param index        its number in the kernel's code
/// \param architecture as in Cubin: 9.0 changed the encoding
/// \return the number of the instruction; a bad encoding gives one outside the code
std::int64_t branch_target(const Word& branch, std::int64_t index, int architecture);

/// Scoreboards: six counters of a warp. A load raises one and lowers it on arrival; an instruction
/// names those that must be zero before it starts.
inline constexpr int kNumScoreboards = 6;

/// \return the scoreboard that the result of an instruction lowers; 7: none
int result_scoreboard(const Word& word);
/// \return bit b set: waits for scoreboard b
unsigned waited_scoreboards(const Word& word);
/// For wait_for_group: how many groups may stay pending.
int pending_groups(const Word& word);

}  // namespace kv::sass
