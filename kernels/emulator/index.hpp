// Indices and extents of grids and CTAs.
#pragma once

namespace kv::emulator {

/// Three unsigned numbers: the type of threadIdx and blockIdx.
struct Index3 {
  unsigned x = 0, y = 0, z = 0;
};

/// Extents of a grid or a CTA; what is left out is 1.
struct Dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr Dim3(unsigned x_in = 1, unsigned y_in = 1, unsigned z_in = 1)
      : x(x_in), y(y_in), z(z_in) {}
};

}  // namespace kv::emulator
