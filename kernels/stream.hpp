// A queue of work on a device, as host code without CUDA headers sees it.
#pragma once

namespace kv {

/// Opaque: a cudaStream_t on a GPU. Null is the default stream; the emulator has no other, since
/// its launches are finished when they return.
using Stream = struct StreamHandle*;

}  // namespace kv
