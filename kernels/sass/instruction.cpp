#include "sass/instruction.hpp"

namespace kv::sass {
namespace {

// Bits [first, first + count) of the upper half of an instruction.
unsigned high_bits(const Word& word, int first, int count) {
  return static_cast<unsigned>(word.high >> (first - 64)) & ((1u << count) - 1);
}

constexpr unsigned kAlways = 7;      // predicate PT
constexpr int kWidthBit = 73;        // 3 bits
constexpr int kCopyWidthBit = 74;    // 2 bits: 4, 8 or 16 bytes
constexpr int kScoreboardBit = 110;  // 3 bits
constexpr int kWaitBit = 116;        // 6 bits

}  // namespace

int access_bytes(const Word& word, int architecture) {
  if (opcode(word) == Opcode::copy_async && architecture >= 100)
    return 4 << high_bits(word, kCopyWidthBit, 2);
  switch (high_bits(word, kWidthBit, 3)) {
    case 0:  // U8
    case 1:  // S8
      return 1;
    case 2:  // U16
    case 3:  // S16
      return 2;
    case 4:
      return 4;
    case 5:
      return 8;
    case 6:
      return 16;
  }
  return 0;  // 7 is another kind of access
}

bool reads_global(const Word& word) {
  return opcode(word) == Opcode::load_global || opcode(word) == Opcode::copy_async;
}

bool is_conditional(const Word& branch) {
  const bool plain_form = (branch.low & 0xfff) == 0x947;
  const unsigned guard = (branch.low >> 12) & 0xf;   // predicate and its negation
  const unsigned second = high_bits(branch, 87, 5);  // another predicate, and BRA.DIV's bit
  return !plain_form || guard != kAlways || second != kAlways;
}

std::int64_t branch_target(const Word& branch, std::int64_t index, int architecture) {
  // In units of 4 bytes, from the next instruction on.
  std::int64_t distance = static_cast<std::int64_t>(branch.low) >> 34;
  if (architecture >= 90)  // its lowest 8 bits moved into what was unused
    distance = distance * 256 + static_cast<std::int64_t>((branch.low >> 16) & 0xff);
  if (distance % 4 != 0) return -1;
  return index + 1 + distance / 4;
}

int result_scoreboard(const Word& word) {
  return static_cast<int>(high_bits(word, kScoreboardBit, 3));
}

unsigned waited_scoreboards(const Word& word) { return high_bits(word, kWaitBit, kNumScoreboards); }

int pending_groups(const Word& word) { return static_cast<int>((word.low >> 38) & 0x3f); }

}  // namespace kv::sass
