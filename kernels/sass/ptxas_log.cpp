#include "sass/ptxas_log.hpp"

#include <charconv>
#include <optional>

#include "kv/check.hpp"

namespace kv::sass {
namespace {

// The number that ends right before `words`; nothing when the line does not have them.
std::optional<int> number_before(std::string_view line, std::string_view words) {
  const std::size_t end = line.find(words);
  if (end == std::string_view::npos) return std::nullopt;
  std::size_t begin = end;
  while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
  int value = 0;
  const auto [rest, error] = std::from_chars(line.data() + begin, line.data() + end, value);
  if (error != std::errc{} || rest != line.data() + end) return std::nullopt;
  return value;
}

}  // namespace

std::map<std::string, Resources, std::less<>> parse_ptxas_log(std::string_view text) {
  constexpr std::string_view kEntry = "Compiling entry function '";
  std::map<std::string, Resources, std::less<>> result;
  Resources* kernel = nullptr;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (const std::size_t begin = line.find(kEntry); begin != std::string_view::npos) {
      const std::string_view rest = line.substr(begin + kEntry.size());
      kernel = &result[std::string(rest.substr(0, rest.find('\'')))];
    }
    if (kernel == nullptr) continue;
    if (const auto bytes = number_before(line, " bytes stack frame")) kernel->stack_bytes = *bytes;
    for (const std::string_view words : {" bytes spill stores", " bytes spill loads"})
      if (const auto bytes = number_before(line, words)) kernel->spill_bytes += *bytes;
    if (const auto count = number_before(line, " registers,")) kernel->registers = *count;
    if (const auto bytes = number_before(line, " bytes smem")) kernel->static_shared_bytes = *bytes;
  }
  for (const auto& [name, resources] : result)
    if (resources.registers == 0)
      throw InputError("ptxas -v: no registers are named for " + name +
                       "; this toolkit's words are not known");
  return result;
}

}  // namespace kv::sass
