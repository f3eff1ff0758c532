// Decode, its two parts and prefill on the rooflines of devices. C++ computes; this places it on log
// scales and writes it out.
"use strict";

KvWidgets.add("roofline", (root, call) => {
  const {element, scroll, cell, row, table, fill, show, fourDigits, withThousands, duration} = KvWidgets;
  const form = root.querySelector("form"), fields = form.elements;
  const now = root.querySelector(".roofline-now");
  const choices = call("roofline_choices"), own = choices.devices.length;
  const sliders = {batch: choices.batches, context: choices.contexts, gigabytes: choices.gigabytes,
                   teraflops: choices.teraflops};
  const parts = {decode: "decode", weights: "its weights alone", attention: "its attention alone",
                 prefill: "prefill"};

  fill(fields.model, choices.models.map(model => model.name), "llama-3-8b");
  fill(fields.device, [...choices.devices, "your own device"], "H100 SXM");
  fill(fields.dtype, choices.formats, "fp16");
  fill(fields.weights_dtype, choices.formats, "fp16");
  for (const [name, stops] of Object.entries(sliders)) fields[name].max = stops.length - 1;
  fields.batch.value = choices.batches.indexOf(8);
  fields.context.value = choices.contexts.indexOf(8192);

  const model = () => choices.models[fields.model.value];
  const chosen = name => sliders[name][fields[name].value];
  const kvHeads = () => model().possible_kv_heads[fields.kv_heads.value];

  function resetKvHeads() {
    const possible = model().possible_kv_heads;
    fields.kv_heads.max = possible.length - 1;
    fields.kv_heads.value = possible.indexOf(model().num_kv_heads);
    fields.kv_heads.disabled = possible.length === 1;
  }

  function say(name, text) {
    fields[name].setAttribute("aria-valuetext", text);
    fields[name].closest("label").querySelector(".roofline-setting").textContent = text;
  }

  // The sliders of a device's rates show a published device's, as near as they come to it.
  function nearest(stops, rate) {
    const distance = stop => Math.abs(Math.log(stop / rate));
    return stops.reduce((best, stop, i) => distance(stop) < distance(stops[best]) ? i : best, 0);
  }

  function compute() {
    const answer = call("roofline", Number(fields.model.value), kvHeads(), Number(fields.dtype.value),
                        Number(fields.weights_dtype.value), chosen("context"), chosen("batch"),
                        chosen("gigabytes"), chosen("teraflops"));
    const device = answer.devices[fields.device.value];
    if (Number(fields.device.value) !== own)
      for (const name of ["gigabytes", "teraflops"])
        fields[name].value = nearest(sliders[name], device[name]);
    say("batch", withThousands(chosen("batch")));
    say("context", withThousands(chosen("context")));
    say("kv_heads", model().latent ? "one latent for all heads"
      : `${kvHeads()}, groups of ${answer.group_size}`);
    say("gigabytes", `${fourDigits(device.gigabytes)} GB/s`);
    say("teraflops", `${fourDigits(device.teraflops)} TFLOP/s`);
    return [answer, device];
  }

  // The picture: operations a byte to the right, operations a second upwards; below, a line for each
  // step, with its mark where it stands.
  const left = 46, right = 600, top = 26, bottom = 326, lane = 24;
  const decadesX = [-1, 8], decadesY = [-2, 4];
  const along = (value, [low, high]) =>
    Math.max(0, Math.min(1, (Math.log10(value) - low) / (high - low)));
  const x = intensity => left + (right - left) * along(intensity, decadesX);
  const y = teraflops => bottom - (bottom - top) * along(teraflops, decadesY);
  const place = value => value.toFixed(1);
  const line = (x1, y1, x2, y2, kind) => element("line", {
    x1: place(x1), y1: place(y1), x2: place(x2), y2: place(y2), class: `roofline-${kind}`});
  const text = (at, height, words, attributes = {}) =>
    element("text", {x: place(at), y: place(height), ...attributes}, words);

  function axes() {
    const drawn = [];
    const power = exponent => exponent < 0 ? (10 ** exponent).toFixed(-exponent)
      : exponent < 4 ? String(10 ** exponent) : "10" + [..."" + exponent].map(d => "⁰¹²³⁴⁵⁶⁷⁸⁹"[d]).join("");
    for (let i = decadesX[0]; i <= decadesX[1]; i++)
      drawn.push(line(x(10 ** i), top, x(10 ** i), bottom, "grid"),
                 text(x(10 ** i), bottom + 16, power(i), {"text-anchor": "middle"}));
    for (let i = decadesY[0]; i <= decadesY[1]; i++)
      drawn.push(line(left, y(10 ** i), right, y(10 ** i), "grid"),
                 text(left - 6, y(10 ** i) + 4, power(i), {"text-anchor": "end"}));
    drawn.push(text(0, 12, "TFLOP/s"),
               text(right, bottom + 34, "operations a byte", {"text-anchor": "end"}));
    return drawn;
  }

  // From the left end, or from where it enters the picture, up to the ridge and on.
  function roof(device, kind) {
    const low = Math.max(10 ** decadesX[0], 10 ** decadesY[0] * 1e3 / device.gigabytes);
    const points = [[low, Math.min(low * device.gigabytes / 1e3, device.teraflops)], [device.ridge, device.teraflops],
                    [10 ** decadesX[1], device.teraflops]];
    return element("polyline", {class: kind,
      points: points.map(([a, b]) => `${place(x(a))},${place(y(b))}`).join(" ")});
  }

  function roofs(devices, chosenDevice) {
    const drawn = devices.slice(0, own).map(device => roof(device, "roofline-roof"));
    drawn.push(roof(chosenDevice, "roofline-roof roofline-chosen"));
    for (const peak of new Set(devices.slice(0, own).map(device => device.teraflops))) {
      const group = devices.slice(0, own).filter(device => device.teraflops === peak);
      drawn.push(text(right + 6, y(peak) + 4, group.map(device => device.name).join(", "),
                      group.includes(chosenDevice) ? {class: "roofline-name"} : {}));
    }
    if (chosenDevice === devices[own])
      drawn.push(text(right - 6, y(chosenDevice.teraflops) - 6, "your own",
                      {"text-anchor": "end", class: "roofline-name"}));
    return drawn;
  }

  const marks = {  // each a shape of its own
    decode: "M-6,0a6,6 0 1,0 12,0a6,6 0 1,0 -12,0z",
    weights: "M-6,5L6,5L0,-6z",
    attention: "M-6,0L0,-7L6,0L0,7z",
    prefill: "M-5.5,-5.5h11v11h-11z"};
  const mark = (name, at, height) => element("path", {
    d: marks[name], transform: `translate(${place(at)},${place(height)})`, class: `roofline-mark-${name}`});

  function picture({steps, devices}, device) {
    const last = bottom + 48 + lane * Object.keys(parts).length, ridge = x(device.ridge);
    const drawn = element("svg", {viewBox: `0 0 706 ${last}`, width: 706, role: "img",
      "aria-label": `Rooflines; on ${device.name}: ` + Object.keys(parts).map(name =>
        `${parts[name]} ${fourDigits(steps[name].intensity)} operations a byte`).join(", ")});
    drawn.append(...axes(), ...roofs(devices, device),
                 line(ridge, top - 4, ridge, last - 8, "ridge"));
    // Where there is room for the words.
    if (ridge > 170) drawn.append(text(ridge - 6, top - 10, "← bound by memory", {"text-anchor": "end"}));
    if (ridge < 590) drawn.append(text(ridge + 6, top - 10, "bound by arithmetic →"));
    Object.entries(parts).forEach(([name, words], i) => {
      const {intensity} = steps[name], at = x(intensity), height = bottom + 52 + lane * i;
      const after = at < 420;
      drawn.append(line(at, y(device[name].teraflops), at, height, "drop"),
                   line(left, height, right, height, "grid"),
                   mark(name, at, y(device[name].teraflops)), mark(name, at, height),
                   text(after ? at + 12 : at - 12, height + 4, `${words}: ${fourDigits(intensity)}`,
                        {"text-anchor": after ? "start" : "end", class: "roofline-name"}));
    });
    return scroll("rooflines", drawn);
  }

  function results({steps}, device) {
    const heads = [device.name, "operations a byte", "bound by", "at best", "of the peak", "tokens/s"];
    return table("steps", heads, Object.entries(parts).map(([name, words]) => row(words, [
      cell(fourDigits(steps[name].intensity), `${name}_intensity`),
      cell(device[name].bound_by, `${name}_bound`),
      cell(duration(device[name].seconds), `${name}_time`),
      cell(`${fourDigits(device[name].percent_of_peak)} %`, `${name}_percent`),
      cell(fourDigits(device[name].tokens_per_second), `${name}_tokens`)])));
  }

  function words({steps, sequences_that_fit}, device) {
    const side = name => `${parts[name]} (${fourDigits(steps[name].intensity)} operations a byte)` +
      ` is bound by ${device[name].bound_by}`;
    const fit = sequences_that_fit[fields.device.value];
    const room = fit === undefined || fit >= chosen("batch") ? ""
      : ` Beside the weights its memory holds only ${withThousands(fit)} of the sequences.`;
    return `The ridge of ${device.name} is at ${fourDigits(device.ridge)} operations a byte: ` +
      `${side("decode")}, ${side("prefill")}.${room}`;
  }

  function draw() {
    const [answer, device] = compute();
    now.textContent = words(answer, device);
    return [picture(answer, device), results(answer, device)];
  }

  form.addEventListener("input", event => {
    if (event.target === fields.model) resetKvHeads();
    if (["gigabytes", "teraflops"].includes(event.target.name)) fields.device.value = own;
    show(root, draw);
  });
  resetKvHeads();
  show(root, draw);
});
