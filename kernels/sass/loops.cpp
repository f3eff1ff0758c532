// Source: Aho, Lam, Sethi & Ullman 2006, Compilers, sections 8.4 (blocks) and 9.6 (dominators,
// natural loops).
#include "sass/loops.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "kv/check.hpp"
#include "sass/instruction.hpp"

namespace kv::sass {
namespace {

// Instructions [begin, end) run one after the other.
struct Block {
  int begin = 0;
  int end = 0;
  std::vector<int> next;
  std::vector<int> previous;
};

bool ends_block(const Word& word) {
  return opcode(word) == Opcode::branch || opcode(word) == Opcode::exit ||
         opcode(word) == Opcode::ret;
}

// An exit or return may be for some threads only.
bool falls_through(const Word& word) {
  if (opcode(word) == Opcode::branch) return is_conditional(word);
  return !ends_block(word) || ((word.low >> 12) & 0xf) != 7;
}

int target_of(const std::vector<Word>& code, int index, int architecture) {
  const std::int64_t target = branch_target(code[index], index, architecture);
  require(target >= 0 && target < std::ssize(code),
          "a branch leads out of its kernel: this architecture encodes branches in another way");
  return static_cast<int>(target);
}

std::vector<Block> split_into_blocks(const std::vector<Word>& code, int architecture) {
  std::set<int> begins = {0};
  const int size = static_cast<int>(code.size());
  for (int i = 0; i < size; ++i) {
    if (ends_block(code[i]) && i + 1 < size) begins.insert(i + 1);
    if (opcode(code[i]) == Opcode::branch) begins.insert(target_of(code, i, architecture));
  }
  std::vector<Block> blocks;
  std::map<int, int> block_at;
  for (const int begin : begins) {
    if (!blocks.empty()) blocks.back().end = begin;
    block_at[begin] = static_cast<int>(blocks.size());
    blocks.push_back({begin, size, {}, {}});
  }
  for (int b = 0; b < std::ssize(blocks); ++b) {
    const int last = blocks[b].end - 1;
    std::set<int> next;
    if (opcode(code[last]) == Opcode::branch)
      next.insert(block_at.at(target_of(code, last, architecture)));
    if (falls_through(code[last]) && b + 1 < std::ssize(blocks)) next.insert(b + 1);
    blocks[b].next.assign(next.begin(), next.end());
    for (const int n : next) blocks[n].previous.push_back(b);
  }
  return blocks;
}

// result[b][a]: every path from the entry to b goes through a. Empty: no path leads to b.
std::vector<std::vector<bool>> find_dominators(const std::vector<Block>& blocks) {
  std::vector<std::vector<bool>> result(blocks.size());
  result[0].assign(blocks.size(), false);
  result[0][0] = true;
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t b = 1; b < blocks.size(); ++b) {
      std::vector<bool> common;
      for (const int p : blocks[b].previous) {
        if (result[p].empty()) continue;
        if (common.empty()) {
          common = result[p];
        } else {
          for (std::size_t a = 0; a < common.size(); ++a) common[a] = common[a] && result[p][a];
        }
      }
      if (common.empty()) continue;
      common[b] = true;
      if (common != result[b]) {
        result[b] = std::move(common);
        changed = true;
      }
    }
  }
  return result;
}

// Adds everything that reaches `from` to a loop that already holds its header.
void collect(const std::vector<Block>& blocks, int from, std::set<int>& loop) {
  if (!loop.insert(from).second) return;
  for (const int p : blocks[from].previous) collect(blocks, p, loop);
}

}  // namespace

std::vector<Loop> find_loops(const std::vector<Word>& code, int architecture) {
  if (code.empty()) return {};
  const std::vector<Block> blocks = split_into_blocks(code, architecture);
  const auto dominators = find_dominators(blocks);

  std::map<int, std::set<int>> loops;  // header -> its blocks
  for (int b = 0; b < std::ssize(blocks); ++b) {
    if (dominators[b].empty()) continue;  // the endless jump that pads a kernel, among others
    for (const int header : blocks[b].next) {
      if (!dominators[b][header]) continue;
      loops[header].insert(header);
      collect(blocks, b, loops[header]);
    }
  }
  std::vector<Loop> result;
  for (const auto& [header, members] : loops) {
    Loop loop;
    loop.header = blocks[header].begin;
    for (const int b : members)
      for (int i = blocks[b].begin; i < blocks[b].end; ++i) loop.instructions.push_back(i);
    result.push_back(std::move(loop));
  }
  return result;
}

}  // namespace kv::sass
