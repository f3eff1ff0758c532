// Names of kernels as people write them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kv::sass {

/// An instance of a kernel, e.g. tiled_kernel<f16, 64>.
struct KernelName {
  std::string base;                    ///< "tiled_kernel"
  std::vector<std::string> arguments;  ///< of the template: {"f16", "64"}

  /// "tiled_kernel<f16, 64>".
  std::string str() const;
  /// The first argument that is a number: by custom the size of a head. 0: none.
  int head_dim() const;
  /// The second argument that is a number: of 16 query heads that a CTA computes. 1: none.
  int head_tiles() const;
  /// The first argument that is a format of K and V, in bytes an element. 0: none.
  int element_bytes() const;
};

/// \param mangled name in the object file
KernelName parse_kernel_name(const std::string& mangled);

}  // namespace kv::sass
