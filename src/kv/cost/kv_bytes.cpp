#include "kv/cost/kv_bytes.hpp"

#include <cmath>
#include <optional>
#include <string>

#include "kv/exercise.hpp"

namespace kv {
namespace {

constexpr KvFormat kFormats[] = {{"fp32", 32, 0, 0}, {"fp16", 16, 0, 0}, {"bf16", 16, 0, 0},
                                 {"fp8", 8, 0, 0},   {"int8", 8, 4, 0},  {"int4", 4, 2, 32}};

//! [checked]
// A product or a sum; nothing where it does not fit 63 bits.
using Checked = std::optional<std::int64_t>;

Checked times(Checked a, std::int64_t b) {
  std::int64_t product = 0;
  if (!a || __builtin_mul_overflow(*a, b, &product)) return std::nullopt;
  return product;
}

Checked plus(Checked a, Checked b) {
  std::int64_t sum = 0;
  if (!a || !b || __builtin_add_overflow(*a, *b, &sum)) return std::nullopt;
  return sum;
}
//! [checked]

// What a layer of multi-head latent attention keeps of a token.
KvBytes latent_bytes_per_token(const KvShape& shape, const KvFormat& format) {
  const std::int64_t latent = shape.kv_lora_rank, rope = shape.qk_rope_head_dim;
  return {format.element_bytes(latent) + format.element_bytes(rope),
          format.scale_bytes_of(latent) + (rope > 0 ? format.scale_bytes_of(rope) : 0)};
}

}  // namespace

std::span<const KvFormat> kv_formats() { return kFormats; }

const KvFormat& kv_format(std::string_view name) {
  std::string known;
  for (const KvFormat& format : kFormats) {
    if (format.name == name) return format;
    known += (known.empty() ? "" : ", ") + std::string(format.name);
  }
  throw InputError("unknown number format '" + std::string(name) + "'; there are " + known);
}

const KvFormat& kv_format(DType dtype) {
  require(dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16,
          "a cache stores fp32, fp16 or bf16");
  return kv_format(dtype == DType::f32 ? "fp32" : dtype == DType::f16 ? "fp16" : "bf16");
}

void KvShape::validate() const {
  const auto positive = [](int value, const char* field) {
    if (value <= 0)
      throw InputError(std::string(field) + " (" + std::to_string(value) + ") must be positive");
  };
  positive(num_layers, "num_layers");
  if (latent()) {
    if (qk_rope_head_dim < 0)
      throw InputError("qk_rope_head_dim (" + std::to_string(qk_rope_head_dim) +
                       ") must not be negative");
  } else {
    positive(num_kv_heads, "num_kv_heads");
    positive(head_dim, "head_dim");
  }
  if (!windows.empty() && windows.size() != static_cast<std::size_t>(num_layers))
    throw InputError("there must be one window a layer (" + std::to_string(windows.size()) +
                     " windows, " + std::to_string(num_layers) + " layers)");
  for (const int w : windows)
    if (w < 0) throw InputError("a window (" + std::to_string(w) + ") must not be negative");
}

KvShape kv_shape(const ModelConfig& config) {
  KvShape shape;
  shape.num_layers = config.num_layers;
  shape.num_kv_heads = config.heads.num_kv_heads;
  shape.head_dim = config.heads.head_dim;
  return shape;
}

//! [head bytes]
KV_EXERCISE KvBytes head_bytes_per_token(const KvShape& shape, const KvFormat& format) {
  const std::int64_t vectors = 2 * static_cast<std::int64_t>(shape.num_kv_heads);  // K and V
  const Checked elements = times(format.element_bytes(shape.head_dim), vectors);
  const Checked scales = times(format.scale_bytes_of(shape.head_dim), vectors);
  if (!elements || !scales) throw InputError("the cost of a token does not fit 63 bits");
  return {*elements, *scales};
}
//! [head bytes]

KvBytes kv_bytes_per_token_in_layer(const KvShape& shape, const KvFormat& format) {
  shape.validate();
  return shape.latent() ? latent_bytes_per_token(shape, format)
                        : head_bytes_per_token(shape, format);
}

KvBytes kv_bytes_per_token(const KvShape& shape, const KvFormat& format) {
  const KvBytes layer = kv_bytes_per_token_in_layer(shape, format);
  const Checked elements = times(layer.elements, shape.num_layers);
  const Checked scales = times(layer.scales, shape.num_layers);
  if (!elements || !scales) throw InputError("the cost of a token does not fit 63 bits");
  return {*elements, *scales};
}

std::int64_t tokens_held(std::int64_t context, std::int64_t window, std::int64_t block_size) {
  require(context >= 1 && window >= 0 && block_size >= 1,
          "context and block_size must be positive");
  // The blocks from that of the oldest token kept to that of the newest.
  const std::int64_t oldest = window > 0 && window < context ? context - window : 0;
  const std::int64_t num_blocks = (context - 1) / block_size - oldest / block_size + 1;
  const Checked held = times(num_blocks, block_size);
  if (!held)
    throw InputError("a context of " + std::to_string(context) + " tokens in blocks of " +
                     std::to_string(block_size) + " does not fit 63 bits");
  return *held;
}

//! [kv bytes]
KV_EXERCISE KvBytes kv_bytes(const KvShape& shape, const KvFormat& format, std::int64_t context,
                             std::int64_t batch, std::int64_t block_size) {
  require(batch >= 1, "batch must be positive");
  const KvBytes token = kv_bytes_per_token_in_layer(shape, format);
  Checked held = 0;  // tokens, summed over the layers of one sequence
  for (int layer = 0; layer < shape.num_layers; ++layer)
    held = plus(held, tokens_held(context, shape.window(layer), block_size));
  const Checked elements = times(times(held, token.elements), batch);
  const Checked scales = times(times(held, token.scales), batch);
  if (!elements || !scales || !plus(elements, scales))
    throw InputError("the KV cache of " + std::to_string(batch) + " sequences of " +
                     std::to_string(context) + " tokens in blocks of " +
                     std::to_string(block_size) +
                     " takes more than 2^63 - 1 bytes; ask for less of any of them");
  return {*elements, *scales};
}
//! [kv bytes]

std::int64_t weight_bytes(std::int64_t num_parameters, double bits) {
  require(num_parameters >= 0 && bits > 0, "parameters and bits must be positive");
  const double bytes = std::ceil(static_cast<double>(num_parameters) * (bits / 8));
  // Whole bytes of a width are exact in integers; a double is not above 2^53.
  if (bits >= 8 && std::fmod(bits, 8.0) == 0) {
    const Checked exact = times(num_parameters, static_cast<std::int64_t>(bits) / 8);
    if (exact) return *exact;
  } else if (bytes < 0x1p62) {
    return static_cast<std::int64_t>(bytes);
  }
  throw InputError("the weights take more than 2^63 - 1 bytes");
}

std::int64_t weight_bytes(std::int64_t num_parameters, const KvFormat& format) {
  const double scale_bits =
      format.elements_a_scale > 0 ? 8.0 * format.scale_bytes / format.elements_a_scale : 0.0;
  return weight_bytes(num_parameters, format.bits + scale_bits);
}

}  // namespace kv
