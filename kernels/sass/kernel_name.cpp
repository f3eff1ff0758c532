#include "sass/kernel_name.hpp"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

namespace kv::sass {
namespace {

// "void kv::gpu::(anonymous namespace)::name<...>(...)", or the mangled name when it is none.
std::string demangle(const std::string& mangled) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status), &std::free);
  return status == 0 ? text.get() : mangled;
}

// What follows the last ':' or ' '.
std::string_view last_word(std::string_view text) {
  return text.substr(text.find_last_of(": ") + 1);
}

}  // namespace

std::string KernelName::str() const {
  std::string text = base;
  for (std::size_t i = 0; i < arguments.size(); ++i) text += (i == 0 ? "<" : ", ") + arguments[i];
  return arguments.empty() ? text : text + ">";
}

namespace {

// The i-th argument that is a number; 0 when there are less.
int number(const std::vector<std::string>& arguments, int i) {
  for (const std::string& argument : arguments)
    if (argument.find_first_not_of("0123456789") == std::string::npos && i-- == 0)
      return std::stoi(argument);
  return 0;
}

}  // namespace

int KernelName::head_dim() const { return number(arguments, 0); }

int KernelName::head_tiles() const { return std::max(number(arguments, 1), 1); }

int KernelName::element_bytes() const {
  for (const std::string& argument : arguments) {
    if (argument == "float") return 4;
    if (argument == "f16" || argument == "bf16") return 2;
  }
  return 0;
}

KernelName parse_kernel_name(const std::string& mangled) {
  std::string text = demangle(mangled);
  // No namespace without a name may look like a list of parameters.
  constexpr std::string_view kUnnamed = "(anonymous namespace)::";
  for (std::size_t at; (at = text.find(kUnnamed)) != std::string::npos;)
    text.erase(at, kUnnamed.size());

  KernelName name;
  const std::size_t begin = text.find_first_of("<(");
  name.base = last_word(std::string_view(text).substr(0, begin));
  if (begin == std::string::npos || text[begin] == '(') return name;
  std::size_t argument_begin = begin + 1;
  int depth = 0;
  for (std::size_t i = begin; i < text.size(); ++i) {
    if (text[i] == '<') ++depth;
    const bool closes = text[i] == '>' && depth == 1;
    if (closes || (text[i] == ',' && depth == 1)) {
      std::string argument = text.substr(argument_begin, i - argument_begin);
      if (argument.starts_with("(") && argument.find(')') != std::string::npos)
        argument.erase(0, argument.find(')') + 1);  // (bool)1, (kv::Order)2
      name.arguments.emplace_back(last_word(std::string_view(argument).substr(
          std::min(argument.find_first_not_of(' '), argument.size()))));
      argument_begin = i + 1;
    }
    if (text[i] == '>' && --depth == 0) break;
  }
  return name;
}

}  // namespace kv::sass
