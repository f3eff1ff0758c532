// The weights of a decoder, as they lie in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kv/config.hpp"
#include "kv/dtype.hpp"

namespace kv {

class GgufFile;

/// A weight matrix in its storage format: y = W x with W [num_rows, num_cols], row-major, so that
/// one output is one contiguous row. Does not own its bytes (the Model does).
struct WeightMatrix {
  DType dtype = DType::f32;         ///< storage format
  std::int64_t num_rows = 0;        ///< outputs
  std::int64_t num_cols = 0;        ///< inputs; a multiple of the format's block_elements
  const std::byte* data = nullptr;  ///< first row
  const float* floats = nullptr;    ///< the same numbers as floats, once widen_weights() has run

  /// Bytes from one row to the next; rows are packed.
  std::int64_t row_bytes() const {
    const DTypeInfo format = info(dtype);
    return num_cols / format.block_elements * format.block_bytes;
  }
  /// Bytes of the whole matrix.
  std::int64_t bytes() const { return num_rows * row_bytes(); }
  /// Where row `r` begins; not checked.
  const std::byte* row(std::int64_t r) const { return data + r * row_bytes(); }
};

/// One decoder layer. Names follow the GGUF tensors (blk.N.attn_norm and so on).
struct LayerWeights {
  std::vector<float> attn_norm;  ///< [d_model]
  WeightMatrix q;                ///< [num_q_heads * head_dim, d_model]
  WeightMatrix k;                ///< [num_kv_heads * head_dim, d_model]
  WeightMatrix v;                ///< [num_kv_heads * head_dim, d_model]
  WeightMatrix o;                ///< [d_model, num_q_heads * head_dim]
  std::vector<float> ffn_norm;   ///< [d_model]
  WeightMatrix gate;             ///< [ffn_dim, d_model]
  WeightMatrix up;               ///< [ffn_dim, d_model]
  WeightMatrix down;             ///< [d_model, ffn_dim]
};

/// A whole decoder: shape and weights. Movable; the bytes live as long as `storage`.
struct Model {
  ModelConfig config;                ///< the shape
  WeightMatrix token_embedding;      ///< [vocab_size, d_model]
  std::vector<LayerWeights> layers;  ///< [num_layers]
  std::vector<float> output_norm;    ///< [d_model]
  WeightMatrix output;               ///< [vocab_size, d_model]; the embedding itself when tied
  std::vector<float> rope_factors;  ///< [rope_dim / 2], each divides its pair's frequency; or empty
  std::vector<std::shared_ptr<const void>> storage;  ///< keeps the mapped file and buffers alive

  /// Whether the output matrix is the token embedding.
  bool tied() const { return output.data == token_embedding.data; }

  /// Bytes of all weights as held, the tied output counted once; norms are held as floats.
  std::int64_t weight_bytes() const;
  /// Elements of all weights, the tied output counted once.
  std::int64_t num_parameters() const;
};

/// Checks names, shapes and types of every tensor and builds the model on the mapped bytes.
///
/// \param file  an open GGUF file of architecture "llama"
/// \param warnings  if not null, receives one line for each default that had to be assumed
/// \throws InputError naming the file and the key or tensor
Model load_model(std::shared_ptr<const GgufFile> file,
                 std::vector<std::string>* warnings = nullptr);

}  // namespace kv
