// From the metadata of a GGUF file to the shape of a model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kv/config.hpp"
#include "kv/model/gguf.hpp"

namespace kv {

/// Reads the llama.* keys. vocab_size stays 0: it is the number of rows of the token embedding.
///
/// Refused, because the model would silently compute something else: other architectures, experts,
/// attention that is not causal, head counts that differ between layers.
///
/// \param file     an open file
/// \param warnings if not null, receives one line for each default that had to be assumed
/// \throws InputError naming the file and the key
ModelConfig read_model_config(const GgufFile& file, std::vector<std::string>* warnings);

/// The linear RoPE scaling of the file: every frequency is divided by it; 1 when there is none.
///
/// \throws InputError naming the file and the key on any other kind of scaling
float read_rope_scaling(const GgufFile& file);

}  // namespace kv
