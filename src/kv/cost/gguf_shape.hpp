// The shape of whatever model a GGUF file holds, whether or not it can run here.
#pragma once

#include <cstdint>

#include "kv/cost/published.hpp"
#include "kv/model/gguf.hpp"

namespace kv {

/// What a file says about its model, and what its tensors weigh.
struct GgufShape {
  PublishedModel model;           ///< what the calculator needs to know of it
  std::int64_t weight_bytes = 0;  ///< bytes of all tensors as stored
};

/// Reads the metadata keys that every architecture has: block_count, attention.head_count,
/// attention.head_count_kv, attention.key_length and so on. No weights are looked at.
///
/// \throws InputError naming the file and the key that is missing or describes a cache that the
///   calculator cannot cost: layers with different KV heads, or K and V of different width
GgufShape gguf_shape(const GgufFile& file);

}  // namespace kv
