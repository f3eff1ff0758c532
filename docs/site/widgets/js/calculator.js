// The KV-memory calculator: what kv_calculator prints, for a published model or a shape of one's own.
"use strict";

KvWidgets.add("calculator", (root, call) => {
  const {element, cell, row, table, fill, show, numbers, withThousands, decimalBytes, binaryBytes,
         fourDigits, duration} = KvWidgets;
  const form = root.querySelector("form"), own = root.querySelector(".calculator-shape");
  const {models, formats} = call("choices");

  fill(form.elements.model, [...models.map(model => model.name), "a shape of your own"], "llama-3-8b");
  fill(form.elements.dtype, formats, "fp16");
  fill(form.elements.weights_dtype, formats, "fp16");

  function calculate() {
    const v = numbers(form);
    const rest = [v.dtype, v.weights_dtype, v.context, v.batch, v.block_size];
    if (v.model < models.length) return call("calculate_model", v.model, ...rest);
    return call("calculate_shape", v.layers, v.q_heads, v.kv_heads, v.head_dim,
                v.billions * 1e9, ...rest);
  }

  function sizes(r) {
    const size = (name, key, bytes) => row(
      name, [cell(withThousands(bytes), key), cell(decimalBytes(bytes)), cell(binaryBytes(bytes))]);
    return table("bytes", ["", "bytes", "GB = 10⁹", "GiB = 2³⁰"], [
      size("a token", "kv_bytes_per_token", r.kv_bytes_per_token),
      size(`a sequence of ${withThousands(r.context)}`, "kv_bytes_per_sequence", r.kv_bytes_per_sequence),
      size(`a batch of ${withThousands(r.batch)}`, "kv_bytes_total", r.kv_bytes_total),
      size(`weights (${r.weights_dtype})`, "weight_bytes", r.weight_bytes)]);
  }

  // Weights and caches as parts of a GPU's memory; what does not fit runs out of the picture.
  function bar(device, r) {
    const width = 160, part = bytes => Math.min(width, width * bytes / device.memory_bytes);
    const weights = part(r.weight_bytes), caches = Math.min(part(r.kv_bytes_total), width - weights);
    const over = r.weight_bytes + r.kv_bytes_total > device.memory_bytes;
    const words = over ? "does not fit" : "fits";
    return element("svg", {viewBox: `0 0 ${width} 14`, width: 110, height: 14, role: "img",
                           "aria-label": `weights and caches: ${words}`},
      element("rect", {x: 0, y: 1, width: weights.toFixed(1), height: 12, class: "widget-weights"}),
      element("rect", {x: weights.toFixed(1), y: 1, width: caches.toFixed(1), height: 12, class: "widget-cache"}),
      element("rect", {x: 0.5, y: 1, width: width - 1, height: 12, class: "widget-frame"}));
  }

  function devices(r) {
    const heads = ["GPU", "memory", "weights + batch", "sequences that fit", "decode bound by",
                   "a step at best", "prefill bound by", "at best"];
    return table("GPUs", heads, r.devices.map((device, i) => row(device.name, [
      cell(decimalBytes(device.memory_bytes)), cell(bar(device, r)),
      cell(withThousands(device.sequences_that_fit), `fit_${i}`),
      cell(device.decode.bound_by, `decode_bound_${i}`),
      cell(duration(device.decode.seconds), `decode_${i}`),
      cell(device.prefill.bound_by, `prefill_bound_${i}`),
      cell(duration(device.prefill.seconds), `prefill_${i}`)])));
  }

  function draw() {
    const r = calculate();
    const model = models[numbers(form).model];
    const about = model ? [`Shape: ${model.source}.`, model.note].filter(Boolean).join(" ")
                        : "A dense model; all its weights are read in a step.";
    const readBytes = decimalBytes(r.decode.weight_bytes_read);
    return [
      sizes(r), devices(r),
      element("p", {}, about + ` A decode step reads ${readBytes} of weights (of an input embedding only the ` +
              "tokens' rows) and does ",
              element("strong", {"data-value": "intensity"}, fourDigits(r.decode.intensity)),
              " operations a byte, prefill ",
              element("strong", {"data-value": "prefill_intensity"}, fourDigits(r.prefill.intensity)),
              ". In the bars dark is weights, light the caches of the batch; nothing is set aside for activations.")];
  }

  function refresh() {
    own.hidden = numbers(form).model < models.length;
    show(root, draw);
  }
  form.addEventListener("input", refresh);
  refresh();
});
