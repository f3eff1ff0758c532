// The published shape of a decoder of the Llama family.
#pragma once

#include <cstdint>
#include <string>

#include "kv/check.hpp"

namespace kv {

/// How many heads there are and how wide they are; all that attention needs to know of a model.
struct HeadConfig {
  int num_q_heads = 0;   ///< query heads per token
  int num_kv_heads = 0;  ///< key/value heads per token; 1 = MQA, num_q_heads = MHA
  int head_dim = 0;      ///< elements of one head

  /// Query heads that read the same KV head.
  int group_size() const;

  /// The KV head that query head h reads: h / group_size(). Source: Ainslie et al. 2023 (GQA).
  int kv_head(int h) const;

  /// Elements of all query heads of one token.
  int q_dim() const { return num_q_heads * head_dim; }

  /// Elements of K (or of V) of one token in one layer.
  int kv_dim() const { return num_kv_heads * head_dim; }

  /// \throws InputError naming both head counts when the query heads cannot be shared out evenly
  void validate() const {
    if (num_q_heads <= 0 || num_kv_heads <= 0 || num_q_heads % num_kv_heads != 0)
      throw InputError("num_q_heads (" + std::to_string(num_q_heads) +
                       ") must be a positive multiple of num_kv_heads (" +
                       std::to_string(num_kv_heads) + "), so that every KV head serves a group");
    if (head_dim <= 0)
      throw InputError("head_dim (" + std::to_string(head_dim) + ") must be positive");
  }
};

/// The shape of a model: everything but the numbers in its weights.
struct ModelConfig {
  std::string name;        ///< the model's own name, for the report
  int vocab_size = 0;      ///< tokens of the vocabulary
  int context_length = 0;  ///< positions the model was trained for
  int d_model = 0;         ///< width of a row between the layers
  int num_layers = 0;      ///< decoder layers
  int ffn_dim = 0;         ///< width inside the SwiGLU
  HeadConfig heads;        ///< attention heads
  int rope_dim = 0;        ///< leading elements of a head that RoPE rotates; even, at most head_dim
  float rope_base = 10000.0f;  ///< RoPE: pair i turns by position * base^(-2i / rope_dim)
  float norm_eps = 1e-5f;      ///< added to the mean square in RMSNorm

  /// \throws InputError naming the field that cannot be right
  void validate() const {
    heads.validate();
    const auto positive = [](int value, const char* field) {
      if (value <= 0)
        throw InputError(std::string(field) + " (" + std::to_string(value) + ") must be positive");
    };
    positive(vocab_size, "vocab_size");
    positive(context_length, "context_length");
    positive(d_model, "d_model");
    positive(num_layers, "num_layers");
    positive(ffn_dim, "ffn_dim");
    if (rope_dim <= 0 || rope_dim % 2 != 0 || rope_dim > heads.head_dim)
      throw InputError("rope_dim (" + std::to_string(rope_dim) +
                       ") must be even and between 2 and head_dim (" +
                       std::to_string(heads.head_dim) + ")");
    if (!(rope_base > 0.0f)) throw InputError("rope_base must be positive");
    if (!(norm_eps >= 0.0f)) throw InputError("norm_eps must not be negative");
  }
};

}  // namespace kv
