// Where decode and prefill sit on the rooflines of devices, and what moves them.
#include "kv/cost/roofline.hpp"

#include <cmath>
#include <string>
#include <vector>

#include "kv/check.hpp"
#include "widget.hpp"

namespace kv {
namespace {

constexpr std::int64_t kMostBatch = 65536, kMostContext = 1048576;

// A step as the page names it, and the tokens that it makes or reads in.
struct NamedStep {
  const char* name;
  StepCost cost;
  std::int64_t num_tokens;
};

bool dense_heads(const PublishedModel& model) {
  return !model.kv.latent() && model.num_experts == 0;
}

// The numbers of KV heads that a model can be given: its own, or any that shares evenly.
std::vector<int> possible_kv_heads(const PublishedModel& model) {
  if (!dense_heads(model)) return {model.kv.num_kv_heads};
  std::vector<int> heads;
  for (int count = 1; count <= model.num_q_heads; ++count)
    if (model.num_q_heads % count == 0) heads.push_back(count);
  return heads;
}

// Decode, its two parts, and prefill. Attention's part is the step of a model without weights.
std::vector<NamedStep> steps(const Workload& work) {
  const StepCost decode = decode_step(work);
  Workload bare = work;
  bare.weight_bytes = 0;
  bare.model.active_params = 0;
  const StepCost attention = decode_step(bare);
  StepCost linear;
  linear.flops = decode.flops - attention.flops;
  linear.weight_bytes = decode.weight_bytes;
  return {{"decode", decode, work.batch},
          {"weights", linear, work.batch},
          {"attention", attention, work.batch},
          {"prefill", prefill_pass(work), work.batch * work.context}};
}

Json placed(const NamedStep& step, const Machine& device) {
  const RooflinePoint point = place(step.cost, device);
  Json json = Json::object();
  json.set("bound_by", point.memory_bound ? "memory" : "arithmetic");
  json.set("seconds", point.seconds).set("teraflops", point.flops_per_second / 1e12);
  json.set("percent_of_peak", 100 * point.flops_per_second / device.flops_per_second);
  json.set("tokens_per_second", static_cast<double>(step.num_tokens) / point.seconds);
  return json;
}

Json on_device(const Machine& device, const std::vector<NamedStep>& all) {
  Json json = Json::object();
  json.set("name", device.name).set("ridge", device.ridge());
  json.set("gigabytes", device.bytes_per_second / 1e9);
  json.set("teraflops", device.flops_per_second / 1e12);
  for (const NamedStep& step : all) json.set(step.name, placed(step, device));
  return json;
}

// 1, 1.5, 2, 3, 5, 7, 10, ... for sliders.
Json decades(double least, double most) {
  Json list = Json::array();
  // Of tenths, so that 0.3 is 3.0 / 10 and not 3 * 0.1, which is a little more.
  for (double tenths = std::round(10 * least); tenths < 10 * most; tenths *= 10)
    for (const double digit : {1.0, 1.5, 2.0, 3.0, 5.0, 7.0}) list.push(digit * tenths / 10);
  return list.push(most);
}

// 1, 2, 4, 8, ...
Json doublings(std::int64_t most) {
  Json list = Json::array();
  for (std::int64_t count = 1; count <= most; count *= 2) list.push(count);
  return list;
}

}  // namespace
}  // namespace kv

using namespace kv;

/// What the form offers, and where its sliders stop.
KV_WIDGET(roofline_choices)() {
  Json models = Json::array(), formats = Json::array(), devices = Json::array();
  for (const PublishedModel& model : published_models()) {
    Json entry = Json::object();
    entry.set("name", model.name).set("num_kv_heads", model.kv.num_kv_heads);
    entry.set("latent", model.kv.latent());
    entry.set("possible_kv_heads", Json::array_of(possible_kv_heads(model)));
    models.push(std::move(entry));
  }
  for (const KvFormat& format : kv_formats()) formats.push(format.name);
  for (const Machine& device : published_devices()) devices.push(device.name);
  Json all = Json::object();
  all.set("models", std::move(models)).set("formats", std::move(formats));
  all.set("devices", std::move(devices));
  all.set("batches", doublings(kMostBatch)).set("contexts", doublings(kMostContext));
  all.set("gigabytes", decades(10, 10000)).set("teraflops", decades(0.1, 10000));
  return answer(all);
}

/// The steps of a workload on every published device and, last, on one of the reader's own.
///
/// \param model, dtype, weights_dtype  indices into roofline_choices()
/// \param num_kv_heads                 one of the model's possible numbers
/// \param gigabytes, teraflops         a second, of the reader's own device
KV_WIDGET(roofline)
(double model, double num_kv_heads, double dtype, double weights_dtype, double context,
 double batch, double gigabytes, double teraflops) {
  const PublishedModel& published =
      published_models()[index(model, "model", published_models().size())];
  const auto heads = static_cast<int>(whole(num_kv_heads, "KV heads", 1, 1e6));
  Workload work;
  work.model = dense_heads(published) ? with_kv_heads(published, heads) : published;
  work.format = format_at(dtype, "the format of the cache");
  work.weight_bytes =
      weight_bytes(work.model.params, format_at(weights_dtype, "the format of the weights"));
  work.context = whole(context, "context", 1, kMostContext);
  work.batch = whole(batch, "batch", 1, kMostBatch);
  if (!(gigabytes > 0 && gigabytes <= 1e9 && teraflops > 0 && teraflops <= 1e9))
    throw InputError("bandwidth and peak rate must be more than 0");

  const std::vector<NamedStep> all = steps(work);
  Json costs = Json::object(), devices = Json::array();
  for (const NamedStep& step : all) {
    Json cost = Json::object();
    cost.set("intensity", step.cost.intensity());
    costs.set(step.name, std::move(cost));
  }
  for (const Machine& device : published_devices()) devices.push(on_device(device, all));
  devices.push(on_device({"your own device", 0, gigabytes * 1e9, teraflops * 1e12, ""}, all));

  const std::int64_t sequence_bytes = kv_bytes(work.model.kv, work.format, work.context, 1).total();
  Json fits = Json::array();
  for (const Machine& device : published_devices())
    fits.push(sequences_that_fit(device, work.weight_bytes, sequence_bytes));
  Json json = Json::object();
  json.set("group_size", work.model.num_q_heads / work.model.kv.num_kv_heads);
  json.set("steps", std::move(costs)).set("devices", std::move(devices));
  json.set("sequences_that_fit", std::move(fits));
  return answer(json);
}
