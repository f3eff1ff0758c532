// The KV-memory calculator: kv_calculator's numbers for a published model or a shape of one's own.
#include <string>

#include "kv/check.hpp"
#include "kv/cost/cost_report.hpp"
#include "widget.hpp"

namespace kv {
namespace {

constexpr double kMost = 1e15;  // as kv_calculator's options

const char* calculate(const PublishedModel& model, double dtype, double weights_dtype,
                      double context, double batch, double block_size) {
  const KvFormat& weights = format_at(weights_dtype, "the format of the weights");
  Workload work;
  work.model = model;
  work.format = format_at(dtype, "the format of the cache");
  work.weight_bytes = weight_bytes(model.params, weights);
  work.context = whole(context, "context", 1, kMost);
  work.batch = whole(batch, "batch", 1, kMost);
  const CostReport report(work, std::string(weights.name),
                          whole(block_size, "block size", 1, kMost));
  return answer(cost_json(report, published_devices(), nullptr));
}

}  // namespace
}  // namespace kv

using namespace kv;

/// What can be chosen: models and number formats.
KV_WIDGET(choices)() {
  Json models = Json::array(), formats = Json::array();
  for (const PublishedModel& model : published_models()) {
    Json entry = Json::object();
    entry.set("name", model.name).set("source", model.source).set("note", model.note);
    models.push(std::move(entry));
  }
  for (const KvFormat& format : kv_formats()) formats.push(format.name);
  Json all = Json::object();
  all.set("models", std::move(models)).set("formats", std::move(formats));
  return answer(all);
}

/// \param model an index into choices(); dtype and weights_dtype likewise
KV_WIDGET(calculate_model)
(double model, double dtype, double weights_dtype, double context, double batch,
 double block_size) {
  const auto models = published_models();
  return calculate(models[index(model, "model", models.size())], dtype, weights_dtype, context,
                   batch, block_size);
}

/// A dense model of the reader's own, all of whose weights are multiplied.
KV_WIDGET(calculate_shape)
(double num_layers, double num_q_heads, double num_kv_heads, double head_dim, double params,
 double dtype, double weights_dtype, double context, double batch, double block_size) {
  PublishedModel model;
  model.name = "your own";
  model.kv.num_layers = static_cast<int>(whole(num_layers, "layers", 1, 1e6));
  model.num_q_heads = static_cast<int>(whole(num_q_heads, "query heads", 1, 1e6));
  model.kv.num_kv_heads = static_cast<int>(whole(num_kv_heads, "KV heads", 1, 1e6));
  model.kv.head_dim = static_cast<int>(whole(head_dim, "head_dim", 1, 1e6));
  model.params = model.active_params = whole(params, "parameters", 1, kMost);
  HeadConfig{model.num_q_heads, model.kv.num_kv_heads, model.kv.head_dim}.validate();
  return calculate(model, dtype, weights_dtype, context, batch, block_size);
}
