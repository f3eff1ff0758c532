// The keys of the "llama" architecture. Source: the GGUF specification, section "LLM".
#include "kv/model/model_config.hpp"

#include <cmath>
#include <filesystem>

namespace kv {
namespace {

// Limits far above every published model; they keep products of two sizes inside 64 bits and the
// sizes themselves inside an int.
constexpr std::int64_t kMaxWidth = std::int64_t{1} << 24;    // d_model, ffn_dim, heads * head_dim
constexpr std::int64_t kMaxContext = std::int64_t{1} << 24;  // positions
constexpr std::int64_t kTensorsPerLayer = 9;

constexpr std::string_view kConvertAgain = "; convert the model again";

/// An integer that may also be given as an array with one equal element per layer.
std::optional<std::int64_t> uniform_integer(const GgufFile& file, const std::string& key) {
  const GgufValue* value = file.find(key);
  if (value == nullptr || !value->is_array) return file.integer(key);
  if (value->count == 0)
    throw file.key_error(key, "is an empty array" + std::string(kConvertAgain));
  const auto first = value->integer_at(0);
  if (!first) throw file.key_error(key, "is not an array of integers" + std::string(kConvertAgain));
  for (std::uint64_t i = 1; i < value->count; ++i)
    if (value->integer_at(i) != first)
      throw file.key_error(key, "differs between layers 0 and " + std::to_string(i) +
                                    ", which is not supported; use a model whose layers are alike");
  return first;
}

int in_range(const GgufFile& file, const std::string& key, std::int64_t value, std::int64_t max) {
  if (value < 1 || value > max)
    throw file.key_error(key, std::to_string(value) + " is not between 1 and " +
                                  std::to_string(max) + std::string(kConvertAgain));
  return static_cast<int>(value);
}

int required(const GgufFile& file, const std::string& key, std::int64_t max) {
  const auto value = uniform_integer(file, key);
  if (!value) throw file.key_error(key, "is missing" + std::string(kConvertAgain));
  return in_range(file, key, *value, max);
}

int optional_or(const GgufFile& file, const std::string& key, std::int64_t fallback,
                std::int64_t max) {
  return in_range(file, key, uniform_integer(file, key).value_or(fallback), max);
}

/// A float that must be finite and above zero, or zero where that makes sense.
float positive(const GgufFile& file, const std::string& key, double value, bool or_zero) {
  const auto narrowed = static_cast<float>(value);
  if (!std::isfinite(narrowed) || narrowed < 0.0f || (narrowed == 0.0f && !or_zero))
    throw file.key_error(key, std::to_string(value) + " is not a finite positive number" +
                                  std::string(kConvertAgain));
  return narrowed;
}

void check_architecture(const GgufFile& file) {
  const auto architecture = file.string("general.architecture");
  if (!architecture)
    throw file.key_error("general.architecture", "is missing" + std::string(kConvertAgain));
  if (*architecture != "llama")
    throw file.key_error("general.architecture", "'" + printable(*architecture) +
                                                     "' is not supported; use a model of "
                                                     "architecture 'llama'");
  if (file.integer("llama.expert_count").value_or(0) != 0)
    throw file.key_error("llama.expert_count",
                         "mixtures of experts are not supported; use a dense model");
  if (file.integer("llama.attention.sliding_window").value_or(0) != 0)
    throw file.key_error("llama.attention.sliding_window",
                         "sliding windows are not supported; use a model with full attention");
  if (!file.boolean("llama.attention.causal").value_or(true))
    throw file.key_error("llama.attention.causal",
                         "only causal attention is supported; use a model that generates text");
}

HeadConfig read_heads(const GgufFile& file, int d_model) {
  const std::string heads_key = "llama.attention.head_count";
  const std::string kv_heads_key = "llama.attention.head_count_kv";
  const std::string key_length = "llama.attention.key_length";
  HeadConfig heads;
  heads.num_q_heads = required(file, heads_key, kMaxWidth);
  // 0 is left to the next check, whose message names both numbers.
  if (uniform_integer(file, kv_heads_key) != 0)
    heads.num_kv_heads = optional_or(file, kv_heads_key, heads.num_q_heads, kMaxWidth);
  if (heads.num_kv_heads == 0 || heads.num_q_heads % heads.num_kv_heads != 0)
    throw file.key_error(kv_heads_key, std::to_string(heads.num_kv_heads) +
                                           " does not divide the " +
                                           std::to_string(heads.num_q_heads) + " of " + heads_key +
                                           std::string(kConvertAgain));
  if (file.find(key_length) != nullptr) {
    heads.head_dim = required(file, key_length, kMaxWidth);
  } else {
    if (d_model % heads.num_q_heads != 0)
      throw file.key_error(heads_key, std::to_string(heads.num_q_heads) + " does not divide the " +
                                          std::to_string(d_model) +
                                          " of llama.embedding_length, and there is no " +
                                          key_length + std::string(kConvertAgain));
    heads.head_dim = d_model / heads.num_q_heads;
  }
  const int value_length =
      optional_or(file, "llama.attention.value_length", heads.head_dim, kMaxWidth);
  if (value_length != heads.head_dim)
    throw file.key_error("llama.attention.value_length",
                         std::to_string(value_length) + " differs from the key length " +
                             std::to_string(heads.head_dim) +
                             ", which is not supported; use another model");
  const std::int64_t q_dim = std::int64_t{heads.num_q_heads} * heads.head_dim;
  if (q_dim > kMaxWidth)
    throw file.key_error(heads_key, std::to_string(heads.num_q_heads) + " heads of " +
                                        std::to_string(heads.head_dim) + " are too wide" +
                                        std::string(kConvertAgain));
  return heads;
}

}  // namespace

ModelConfig read_model_config(const GgufFile& file, std::vector<std::string>* warnings) {
  check_architecture(file);
  ModelConfig config;
  config.name = printable(
      file.string("general.name").value_or(std::filesystem::path(file.name()).stem().string()));
  config.context_length = required(file, "llama.context_length", kMaxContext);
  config.d_model = required(file, "llama.embedding_length", kMaxWidth);
  config.ffn_dim = required(file, "llama.feed_forward_length", kMaxWidth);

  // The layers must be there before anything is allocated for them.
  const auto num_tensors = static_cast<std::int64_t>(file.tensors().size());
  config.num_layers = required(file, "llama.block_count", kMaxWidth);
  if (config.num_layers > num_tensors / kTensorsPerLayer)
    throw file.key_error("llama.block_count",
                         std::to_string(config.num_layers) + " layers of " +
                             std::to_string(kTensorsPerLayer) + " tensors each, but the file has " +
                             std::to_string(num_tensors) + std::string(kConvertAgain));

  config.heads = read_heads(file, config.d_model);

  const std::string rope_key = "llama.rope.dimension_count";
  config.rope_dim = optional_or(file, rope_key, config.heads.head_dim, config.heads.head_dim);
  if (config.rope_dim % 2 != 0)
    throw file.key_error(rope_key, "the number of rotated elements, " +
                                       std::to_string(config.rope_dim) + ", is odd" +
                                       std::string(kConvertAgain));

  const std::string base_key = "llama.rope.freq_base";
  const auto base = file.number(base_key);
  if (!base && warnings != nullptr)
    warnings->push_back(file.name() + ": key '" + base_key + "' is missing; 10000 is assumed");
  config.rope_base = positive(file, base_key, base.value_or(10000.0), false);

  const std::string eps_key = "llama.attention.layer_norm_rms_epsilon";
  const auto eps = file.number(eps_key);
  if (!eps) throw file.key_error(eps_key, "is missing" + std::string(kConvertAgain));
  config.norm_eps = positive(file, eps_key, *eps, true);
  return config;
}

float read_rope_scaling(const GgufFile& file) {
  const std::string type_key = "llama.rope.scaling.type";
  const std::string factor_key = "llama.rope.scaling.factor";
  const std::string attention_key = "llama.rope.scaling.attn_factor";
  const std::string old_key = "llama.rope.scale_linear";  // before scaling.* existed

  const std::string_view type = file.string(type_key).value_or("linear");
  if (type == "none") return 1.0f;
  if (type != "linear")
    throw file.key_error(type_key, "RoPE scaling '" + printable(type) +
                                       "' is not supported; use a model with none or linear "
                                       "scaling");
  if (file.number(attention_key).value_or(1.0) != 1.0)
    throw file.key_error(attention_key, "is not supported; use a model without it");
  const auto factor = file.number(factor_key);
  if (factor) return positive(file, factor_key, *factor, false);
  const auto old_factor = file.number(old_key);
  if (old_factor) return positive(file, old_key, *old_factor, false);
  if (file.find(type_key) != nullptr)
    throw file.key_error(factor_key, "is missing although linear RoPE scaling is asked for" +
                                         std::string(kConvertAgain));
  return 1.0f;
}

}  // namespace kv
