// What the KV cache of a model costs, from its published shape alone.
//
//     KV bytes per token = 2 * num_layers * num_kv_heads * head_dim * bytes_per_element
//
// The 2 is K and V. Query heads do not appear: that is the point of grouped-query attention. Nor
// does hidden_size / num_q_heads, which is head_dim in many models but not in all (Qwen3, Gemma,
// Mistral-Nemo). All results are exact; a number that does not fit 63 bits is an error, not a wrap.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "kv/config.hpp"
#include "kv/dtype.hpp"

namespace kv {

/// How cached numbers are stored. A vector is K or V of one head of one token (in MLA: the latent
/// or the rotated key of one token). Each vector is packed by itself and starts on a whole byte.
struct KvFormat {
  std::string_view name;     ///< as options and reports write it
  int bits = 0;              ///< of one element
  int scale_bytes = 0;       ///< of one scale; 0 = none
  int elements_a_scale = 0;  ///< elements that share a scale; 0 = the whole vector

  /// Bytes of the elements of a vector, without its scales.
  std::int64_t element_bytes(std::int64_t num_elements) const {
    return (num_elements * bits + 7) / 8;
  }
  /// Bytes of the scales of a vector.
  std::int64_t scale_bytes_of(std::int64_t num_elements) const {
    if (scale_bytes == 0) return 0;
    if (elements_a_scale == 0) return scale_bytes;
    return (num_elements + elements_a_scale - 1) / elements_a_scale * scale_bytes;
  }
};

/// fp32, fp16, bf16 and fp8: plain numbers. (fp8 has one scale for a whole tensor, which costs
/// nothing a token.)
/// int8: one fp32 kv_scale per token and KV head, for K and for V each. fp32, because the range of
///   fp16 is too small for a scale to be safe; it adds 4 bytes to head_dim bytes.
/// int4: one fp16 scale for each 32 elements, as in Q4_0: 4.5 bits an element in all.
std::span<const KvFormat> kv_formats();

/// \param name e.g. "bf16"
/// \return the format
/// \throws InputError naming the formats that there are
const KvFormat& kv_format(std::string_view name);

/// The format of a cache that stores `dtype`.
/// \throws std::invalid_argument unless it is f32, f16 or bf16
const KvFormat& kv_format(DType dtype);

/// All that the cost of a cache depends on.
struct KvShape {
  int num_layers = 0;    ///< layers that keep K and V
  int num_kv_heads = 0;  ///< in each layer
  int head_dim = 0;      ///< elements of one head
  /// Multi-head latent attention when positive: a layer keeps c_kv [kv_lora_rank] and
  /// k_rope [qk_rope_head_dim] of a token instead of K and V, and K and V come out of the same
  /// vector, so there is no factor 2 and no factor num_kv_heads.
  /// Source: DeepSeek-AI 2024 (DeepSeek-V2).
  int kv_lora_rank = 0;
  int qk_rope_head_dim = 0;  ///< elements of k_rope, which every head reads
  /// Tokens that each layer keeps (its sliding window, the newest token included); 0 = all of
  /// them. Empty: no layer slides.
  std::vector<int> windows;

  /// Whether a latent is kept in place of K and V.
  bool latent() const { return kv_lora_rank > 0; }
  /// Tokens that the layer keeps; 0 = all of them.
  int window(int layer) const {
    return windows.empty() ? 0 : windows[static_cast<std::size_t>(layer)];
  }
  /// \throws InputError naming the field that cannot be right
  void validate() const;
};

/// The shape of a model that runs here: every layer full.
KvShape kv_shape(const ModelConfig& config);

/// Bytes of numbers and of their scales; the cache holds both.
struct KvBytes {
  std::int64_t elements = 0;  ///< bytes of the numbers
  std::int64_t scales = 0;    ///< bytes of their scales
  /// Both together.
  std::int64_t total() const { return elements + scales; }
  /// Equal in both.
  bool operator==(const KvBytes&) const = default;
};

/// What one more token costs in a layer that keeps K and V of every KV head (not a latent vector).
/// \throws InputError when it does not fit 63 bits
KvBytes head_bytes_per_token(const KvShape& shape, const KvFormat& format);

/// What one more token costs in one layer.
KvBytes kv_bytes_per_token_in_layer(const KvShape& shape, const KvFormat& format);

/// What one more token costs while the context is below every window. Behind a window a layer
/// drops a token for each that it adds, so kv_bytes() is then less than context times this.
KvBytes kv_bytes_per_token(const KvShape& shape, const KvFormat& format);

/// Token positions that a layer holds storage for.
///
/// \param context    tokens of the sequence
/// \param window     newest tokens that the layer keeps; 0 = all
/// \param block_size storage comes in whole blocks of so many consecutive positions; a block stays
///                   while one of its tokens is in the window. 1 = contiguous.
std::int64_t tokens_held(std::int64_t context, std::int64_t window, std::int64_t block_size);

/// What the caches of `batch` sequences of `context` tokens hold, exactly.
///
/// \param shape      layers and heads
/// \param format     how a number is stored
/// \param context    tokens of a sequence, at least 1
/// \param batch      sequences, at least 1
/// \param block_size tokens of a block, at least 1; a sequence holds whole blocks
/// \throws InputError naming the numbers when the result does not fit 63 bits
KvBytes kv_bytes(const KvShape& shape, const KvFormat& format, std::int64_t context,
                 std::int64_t batch = 1, std::int64_t block_size = 1);

/// Bytes of `num_parameters` weights of `bits` each, rounded up.
/// \throws InputError when they do not fit 63 bits
std::int64_t weight_bytes(std::int64_t num_parameters, double bits);

/// The same for weights stored as `format` says. Scales that a group of elements shares count; a
/// scale of a whole vector does not, because a row of weights has thousands of elements.
std::int64_t weight_bytes(std::int64_t num_parameters, const KvFormat& format);

}  // namespace kv
