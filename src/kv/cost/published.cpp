// Parameter counts follow from the shapes in the named config.json; they equal the published ones
// (for instance 8.03 B, 20.91 B with 3.61 B active, 671 B).
#include "kv/cost/published.hpp"

#include <cmath>
#include <utility>
#include <vector>

#include "kv/check.hpp"
#include "kv/config.hpp"

namespace kv {
namespace {

KvShape heads(int num_layers, int num_kv_heads, int head_dim) {
  KvShape shape;
  shape.num_layers = num_layers;
  shape.num_kv_heads = num_kv_heads;
  shape.head_dim = head_dim;
  return shape;
}

KvShape latent(int num_layers, int num_heads, int kv_lora_rank, int qk_rope_head_dim) {
  KvShape shape;
  shape.num_layers = num_layers;
  shape.num_kv_heads = num_heads;  // not what is cached: each head has its own K and V to compute
  shape.head_dim = 128;
  shape.kv_lora_rank = kv_lora_rank;
  shape.qk_rope_head_dim = qk_rope_head_dim;
  return shape;
}

// Every `period`-th layer is full, the others (the first of a group too) keep `window` tokens;
// period 0: no layer is full.
KvShape sliding(KvShape shape, int window, int period) {
  for (int layer = 0; layer < shape.num_layers; ++layer) {
    const bool full = period > 0 && layer % period == period - 1;
    shape.windows.push_back(full ? 0 : window);
  }
  return shape;
}

PublishedModel dense(std::string name, KvShape kv, int num_q_heads, std::int64_t params,
                     std::int64_t lookup_params, std::string source, std::string note = "") {
  return {std::move(name),   std::move(kv),          num_q_heads, params,
          lookup_params,     params - lookup_params, 0,           0,
          std::move(source), std::move(note)};
}

std::vector<PublishedModel> make_models() {
  std::vector<PublishedModel> models;
  models.push_back(dense("gpt2-small", heads(12, 12, 64), 12, 124'439'808, 786'432,
                         "openai-community/gpt2 config.json"));
  models.push_back(dense("llama-2-7b", heads(32, 32, 128), 32, 6'738'415'616, 131'072'000,
                         "meta-llama/Llama-2-7b-hf config.json"));
  models.push_back(dense("llama-3-8b", heads(32, 8, 128), 32, 8'030'261'248, 525'336'576,
                         "meta-llama/Meta-Llama-3-8B config.json"));
  models.push_back(dense("llama-3-70b", heads(80, 8, 128), 64, 70'553'706'496, 1'050'673'152,
                         "meta-llama/Meta-Llama-3-70B config.json"));
  models.push_back(dense("mha-70b", heads(80, 64, 128), 64, 70'000'000'000, 0,
                         "no published model: 70 billion parameters, 80 layers, 64 heads of 128",
                         "What a 70B model would cost if every query head had its own KV head."));
  models.push_back(dense("mistral-7b", sliding(heads(32, 8, 128), 4096, 0), 32, 7'241'732'096,
                         131'072'000, "mistralai/Mistral-7B-v0.1 config.json",
                         "Version 0.1: every layer keeps a sliding window of 4,096 tokens."));
  models.push_back(dense("mistral-nemo", heads(40, 8, 128), 32, 12'247'782'400, 671'088'640,
                         "mistralai/Mistral-Nemo-Base-2407 config.json",
                         "head_dim is 128, not hidden_size / num_q_heads = 160."));
  models.push_back(dense("qwen3-0.6b", heads(28, 8, 128), 16, 596'049'920, 0,
                         "Qwen/Qwen3-0.6B config.json",
                         "head_dim is 128, not hidden_size / num_q_heads = 64."));
  models.push_back(dense("qwen3-4b", heads(36, 8, 128), 32, 4'022'468'096, 0,
                         "Qwen/Qwen3-4B config.json",
                         "head_dim is 128, not hidden_size / num_q_heads = 80."));
  models.push_back(dense("gemma-7b", heads(28, 16, 256), 16, 8'537'680'896, 0,
                         "google/gemma-7b config.json",
                         "head_dim is 256, not hidden_size / num_q_heads = 192."));
  models.push_back({"deepseek-v2-lite", latent(27, 16, 512, 64), 16, 15'706'484'224, 209'715'200,
                    2'451'435'008, 64, 6, "deepseek-ai/DeepSeek-V2-Lite config.json",
                    "MLA: a layer caches 512 + 64 numbers a token, and no second copy for V."});
  models.push_back({"deepseek-v3", latent(61, 128, 512, 64), 128, 671'026'419'200, 926'679'040,
                    36'625'618'432, 256, 8,
                    "deepseek-ai/DeepSeek-V3 config.json, without the MTP module",
                    "MLA: a layer caches 512 + 64 numbers a token, and no second copy for V."});
  models.push_back({"gpt-oss-20b", sliding(heads(24, 8, 64), 128, 2), 64, 20'914'757'184,
                    579'133'440, 3'608'307'264, 32, 4, "openai/gpt-oss-20b config.json",
                    "Every other layer keeps a sliding window of 128 tokens."});
  return models;
}

}  // namespace

double PublishedModel::params_read(std::int64_t batch) const {
  const double multiplied = static_cast<double>(params - lookup_params);
  if (num_experts == 0) return multiplied;
  // multiplied = shared + E, active = shared + f E  =>  E = (multiplied - active) / (1 - f).
  // A token leaves a given expert alone with probability 1 - f.
  const double f = static_cast<double>(active_experts) / num_experts;
  const double experts = (multiplied - static_cast<double>(active_params)) / (1 - f);
  return multiplied - experts * std::pow(1 - f, static_cast<double>(batch));
}

std::span<const PublishedModel> published_models() {
  static const std::vector<PublishedModel> models = make_models();
  return models;
}

const PublishedModel& published_model(std::string_view name) {
  for (const PublishedModel& model : published_models())
    if (model.name == name) return model;
  throw InputError("no published shape is named '" + std::string(name) +
                   "'; --list shows the names, or give the path of a .gguf file");
}

PublishedModel with_kv_heads(const PublishedModel& model, int num_kv_heads) {
  HeadConfig{model.num_q_heads, num_kv_heads, model.kv.head_dim}.validate();
  require(!model.kv.latent() && model.num_experts == 0, "only dense models with K and V");
  PublishedModel changed = model;
  changed.kv.num_kv_heads = num_kv_heads;
  const std::int64_t d_model = std::int64_t{model.num_q_heads} * model.kv.head_dim;
  const std::int64_t added_heads = num_kv_heads - model.kv.num_kv_heads;
  const std::int64_t added = 2 * model.kv.num_layers * d_model * added_heads * model.kv.head_dim;
  changed.params += added;
  changed.active_params += added;
  return changed;
}

}  // namespace kv
