// The calculator's numbers without their text: the browser runs this too (docs/site/widgets).
#include <utility>

#include "kv/cost/cost_report.hpp"

namespace kv {
namespace {

Json step_json(const StepCost& cost) {
  Json json = Json::object();
  json.set("flops", cost.flops).set("weight_bytes_read", cost.weight_bytes);
  json.set("kv_bytes", cost.kv_bytes).set("intensity", cost.intensity());
  return json;
}

Json place_json(const StepCost& cost, const Machine& device) {
  const RooflinePoint point = place(cost, device);
  Json json = Json::object();
  json.set("bound_by", point.memory_bound ? "memory" : "arithmetic");
  json.set("seconds", point.seconds).set("flops_per_second", point.flops_per_second);
  return json;
}

}  // namespace

std::vector<Machine> with_machine(std::span<const Machine> gpus, const Machine* machine) {
  std::vector<Machine> devices(gpus.begin(), gpus.end());
  if (machine != nullptr) devices.push_back(*machine);
  return devices;
}

CostReport::CostReport(Workload what, std::string weights_name, std::int64_t tokens_a_block)
    : workload(std::move(what)),
      weights_format(std::move(weights_name)),
      block_size(tokens_a_block),
      per_token(kv_bytes_per_token(workload.model.kv, workload.format)),
      per_sequence(kv_bytes(workload.model.kv, workload.format, workload.context, 1, block_size)),
      total(kv_bytes(workload.model.kv, workload.format, workload.context, workload.batch,
                     block_size)),
      decode(decode_step(workload)),
      prefill(prefill_pass(workload)) {}

Json cost_json(const CostReport& report, std::span<const Machine> gpus, const Machine* machine) {
  const Workload& w = report.workload;
  Json json = Json::object();
  json.set("model", w.model.name).set("source", w.model.source);
  json.set("num_parameters", w.model.params).set("active_parameters", w.model.active_params);
  json.set("context", w.context).set("batch", w.batch).set("block_size", report.block_size);
  json.set("dtype", w.format.name).set("weights_dtype", report.weights_format);
  json.set("kv_bytes_per_token", report.per_token.total());
  json.set("kv_bytes_per_sequence", report.per_sequence.total());
  json.set("kv_bytes_total", report.total.total());
  json.set("kv_element_bytes_total", report.total.elements);
  json.set("kv_scale_bytes_total", report.total.scales);
  json.set("weight_bytes", w.weight_bytes);
  json.set("decode", step_json(report.decode)).set("prefill", step_json(report.prefill));
  Json devices = Json::array();
  for (const Machine& device : with_machine(gpus, machine)) {
    Json entry = Json::object();
    entry.set("name", device.name).set("source", device.source);
    entry.set("memory_bytes", device.memory_bytes);
    entry.set("bytes_per_second", device.bytes_per_second);
    entry.set("flops_per_second", device.flops_per_second).set("ridge", device.ridge());
    entry.set("sequences_that_fit",
              sequences_that_fit(device, w.weight_bytes, report.per_sequence.total()));
    entry.set("decode", place_json(report.decode, device));
    entry.set("prefill", place_json(report.prefill, device));
    devices.push(std::move(entry));
  }
  json.set("devices", std::move(devices));
  return json;
}

}  // namespace kv
