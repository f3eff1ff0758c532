// What `ptxas -v` says of each kernel.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace kv::sass {

/// Resources of one kernel, as ptxas gave them out.
struct Resources {
  int registers = 0;            ///< of one thread
  int static_shared_bytes = 0;  ///< of one CTA; without what it asks for at launch
  int stack_bytes = 0;          ///< of one thread: local memory, spilled registers included
  int spill_bytes = 0;          ///< stores and loads of one thread
};

/// \param text the output of ptxas -v
/// \return by mangled name
/// \throws InputError on a kernel without its registers: the toolkit words it in another way
std::map<std::string, Resources, std::less<>> parse_ptxas_log(std::string_view text);

}  // namespace kv::sass
