#include "kv/cost/gguf_shape.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>

namespace kv {
namespace {

// Bounds the work that a damaged file can cause.
constexpr int kMostLayers = 100'000;

// Keys are "<architecture>.<name>".
struct Keys {
  const GgufFile& file;
  std::string architecture;

  std::string key(std::string_view name) const { return architecture + "." + std::string(name); }

  // One number, or an array that holds the same number for each layer.
  std::optional<int> number(std::string_view name) const {
    const std::string full = key(name);
    const GgufValue* value = file.find(full);
    if (value == nullptr) return std::nullopt;
    std::optional<std::int64_t> result;
    for (std::uint64_t i = 0; i < value->count; ++i) {
      const std::optional<std::int64_t> element = value->integer_at(i);
      if (!element || *element < 0 || *element > std::numeric_limits<int>::max())
        throw file.key_error(full, "must be a whole number from 0 to 2147483647");
      if (result && *result != *element)
        throw file.key_error(full, "differs between layers, which the calculator cannot cost");
      result = element;
    }
    if (!result) throw file.key_error(full, "is empty");
    return static_cast<int>(*result);
  }

  int required(std::string_view name) const {
    const std::optional<int> value = number(name);
    if (!value) throw file.key_error(key(name), "is missing");
    return *value;
  }

  int positive(std::string_view name) const {
    const int value = required(name);
    if (value == 0) throw file.key_error(key(name), "must be positive");
    return value;
  }
};

// Files name the window but mostly not which layers slide; the architecture decides.
// Every `period`-th layer is full. Source: config.json of gpt-oss, Gemma 2 and Gemma 3.
int window_period(const Keys& keys) {
  if (keys.architecture == "gpt-oss" || keys.architecture == "gemma2") return 2;
  if (keys.architecture == "gemma3") return 6;
  return 0;
}

// Sets the windows, or says in the note why they are left out.
void read_windows(const Keys& keys, PublishedModel& model) {
  const int window = keys.number("attention.sliding_window").value_or(0);
  if (window == 0) return;
  const int period = window_period(keys);
  if (period == 0) {
    model.note = "The file names a sliding window of " + std::to_string(window) +
                 " tokens but not its layers; all layers are costed in full.";
    return;
  }
  for (int layer = 0; layer < model.kv.num_layers; ++layer)
    model.kv.windows.push_back(layer % period == period - 1 ? 0 : window);
}

void read_heads(const Keys& keys, PublishedModel& model) {
  KvShape& kv = model.kv;
  kv.num_layers = keys.positive("block_count");
  if (kv.num_layers > kMostLayers)
    throw keys.file.key_error(keys.key("block_count"),
                              "is " + std::to_string(kv.num_layers) + ", more than any model has");
  model.num_q_heads = keys.positive("attention.head_count");
  kv.num_kv_heads = keys.number("attention.head_count_kv").value_or(model.num_q_heads);
  kv.kv_lora_rank = keys.number("attention.kv_lora_rank").value_or(0);
  if (kv.latent()) {
    kv.qk_rope_head_dim = keys.required("rope.dimension_count");
    kv.head_dim = keys.number("attention.value_length_mla")
                      .value_or(keys.number("attention.value_length").value_or(128));
    return;
  }
  const int key_length = keys.number("attention.key_length").value_or(0);
  kv.head_dim = key_length > 0 ? key_length : keys.positive("embedding_length") / model.num_q_heads;
  if (kv.head_dim == 0)
    throw keys.file.key_error(keys.key("embedding_length"),
                              "must be at least the number of query heads");
  const int value_length = keys.number("attention.value_length").value_or(kv.head_dim);
  if (value_length != kv.head_dim)
    throw keys.file.key_error(keys.key("attention.value_length"),
                              "differs from key_length, which the calculator cannot cost");
  if (kv.num_kv_heads == 0 || model.num_q_heads % kv.num_kv_heads != 0)
    throw keys.file.key_error(keys.key("attention.head_count_kv"),
                              "must divide the " + std::to_string(model.num_q_heads) +
                                  " query heads, not be " + std::to_string(kv.num_kv_heads));
}

}  // namespace

GgufShape gguf_shape(const GgufFile& file) {
  const auto architecture = file.string("general.architecture");
  if (!architecture) throw file.key_error("general.architecture", "is missing");
  const Keys keys{file, std::string(*architecture)};

  GgufShape result;
  PublishedModel& model = result.model;
  model.name = printable(file.string("general.name").value_or(file.name()));
  model.source = file.name();
  read_heads(keys, model);
  read_windows(keys, model);

  std::int64_t expert_params = 0;
  for (const GgufTensor& tensor : file.tensors()) {
    // Both are bounded by the size of the file.
    const std::int64_t elements = tensor.row_length() * tensor.num_rows();
    model.params += elements;
    result.weight_bytes += static_cast<std::int64_t>(tensor.bytes.size());
    if (tensor.name.find("_exps.") != std::string_view::npos) expert_params += elements;
  }
  if (model.params == 0) throw InputError(file.name() + ": holds no tensors");
  const GgufTensor* embedding = file.find_tensor("token_embd.weight");
  if (embedding != nullptr && file.find_tensor("output.weight") != nullptr)
    model.lookup_params = embedding->row_length() * embedding->num_rows();

  model.active_params = model.params - model.lookup_params;
  const int num_experts = keys.number("expert_count").value_or(0);
  const int active_experts = keys.number("expert_used_count").value_or(0);
  if (num_experts > 0 && active_experts > 0 && active_experts < num_experts) {
    model.num_experts = num_experts;
    model.active_experts = active_experts;
    model.active_params -= expert_params / num_experts * (num_experts - active_experts);
  }
  return result;
}

}  // namespace kv
