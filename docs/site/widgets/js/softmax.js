// The online softmax: a score more or less with each press, the weights as bars, the states as a table;
// below, the same keys in two parts that are merged.
"use strict";

KvWidgets.add("softmax", (root, call) => {
  const {element, scroll, cell, row, table, show} = KvWidgets;
  const form = root.querySelector("form"), {scores, values, split} = form.elements;
  const now = root.querySelector(".softmax-now");
  let taken = Infinity;  // scores so far; Infinity: all, however many there are

  // What JSON cannot hold comes as a word.
  const six = value => typeof value === "string" ? value : call("six_digits", value);

  const list = field => field.value.split(/[\s,;]+/).filter(word => word)
    .map(word => /^[-−](inf|infinity|∞)$/i.test(word) ? -Infinity : Number(word.replace("−", "-")));

  function compute() {
    const s = list(scores), v = list(values);
    call("softmax_clear");
    for (let j = 0; j < Math.max(s.length, v.length); j++) call("softmax_add", s[j] ?? NaN, v[j] ?? NaN);
    split.max = s.length;
    split.setAttribute("aria-valuetext", `${split.value} of ${s.length}`);
    root.querySelector(".softmax-split").textContent = `${split.value} of ${s.length}`;
    return call("softmax_states", Number(split.value));
  }

  function bars(result, at) {
    const {states} = result, state = states[at], before = states[Math.max(at - 1, 0)].weights;
    const pitch = 74, left = 78, ground = 124, height = 108;
    const x = j => left + pitch * j;
    const label = (j, y, text, attributes = {}) => element(
      "text", {x: x(j) + 20, y, "text-anchor": "middle", ...attributes}, text);
    const drawn = element("svg", {
      viewBox: `0 0 ${left + pitch * (states.length - 1)} 186`,
      width: left + pitch * (states.length - 1), role: "img",
      "aria-label": `Weights of ${at} of ${states.length - 1} keys, relative to the maximum so far`});
    drawn.append(
      element("line", {x1: left - 10, x2: left + pitch * (states.length - 1), y1: ground, y2: ground,
                       class: "softmax-ground"}),
      ...[["exp(s − m)", 140], ["score s", 158], ["value v", 176]].map(
        ([text, y]) => element("text", {x: 0, y}, text)));
    for (let j = 0; j + 1 < states.length; j++) {
      const {score, masked} = states[j + 1], weight = state.weights[j];
      const bar = (of, kind) => element("rect", {
        x: x(j), y: (ground - height * of).toFixed(2), width: 40, height: (height * of).toFixed(2),
        class: kind});
      if (before[j] > weight) drawn.append(bar(before[j], "softmax-before"));
      if (weight > 0) drawn.append(bar(weight, j === at - 1 ? "softmax-bar softmax-newest" : "softmax-bar"));
      const text = weight === undefined ? "to come" : masked ? "masked" : six(weight);
      drawn.append(label(j, 140, text, weight === undefined ? {} : {"data-value": `weight_${j}`}),
                   label(j, 158, six(score)), label(j, 176, six(result.values[j])));
    }
    return scroll("weights", drawn);
  }

  function steps(states, at) {
    const rows = states.slice(0, at + 1).map((state, j) => {
      const key = name => j === at ? name : undefined;  // of the newest state alone
      const taken = j === 0 ? [cell(""), cell("")]
        : [cell(state.masked ? "masked" : six(state.weights[j - 1]), key("weight")),
           cell(six(state.rescale), key("rescale"))];
      return row(j === 0 ? "none" : `${j}: ${six(state.score)}`,
                 [...taken, cell((state.new_maximum ? "new: " : "") + six(state.m), key("m")),
                  cell(six(state.l), key("l")), cell(six(state.output), key("output")),
                  cell(six(state.lse), key("lse"))],
                 j === at ? {"aria-current": "step"} : {});
    });
    return table("states", ["score", "exp(s − m)", "rescale", "m", "l", "output", "log-sum-exp"], rows);
  }

  function results(result) {
    const last = result.states.at(-1);
    const line = (name, key, {lse, output}) =>
      row(name, [cell(six(lse), `${key}_lse`), cell(six(output), `${key}_output`)]);
    return table("results", ["all keys", "log-sum-exp", "output"], [
      line("one pass, fp32: OnlineSoftmax", "online", last),
      line("two passes, double: the oracle", "two_passes", result.two_passes),
      line("exp(s) without a maximum, fp32", "naive", result.naive)]);
  }

  function parts({merged, states}) {
    const cut = Number(split.value), all = states.length - 1;
    const keys = (from, to) => to < from ? "none" : from === to ? `${from}` : `${from} to ${to}`;
    const line = (name, key, {lse, output}, held, factor) =>
      row(name, [cell(held), cell(six(lse), `${key}_lse`), cell(six(output), `${key}_output`),
                 cell(factor, `${key}_factor`)]);
    return table("two parts", ["in two parts", "keys", "log-sum-exp", "output", "factor"], [
      line("a", "a", merged.a, keys(1, cut), six(merged.factor_a)),
      line("b", "b", merged.b, keys(cut + 1, all), six(merged.factor_b)),
      line("merged: merge_factors", "merged", merged.whole, keys(1, all), "")]);
  }

  function words(states, at) {
    if (at === 0) return "No score yet: the empty state.";
    const state = states[at], begin = `Score ${at} of ${states.length - 1}, ${six(state.score)}, is `;
    if (state.masked) return begin + "masked: nothing changes.";
    if (!state.new_maximum)
      return begin + `not above the maximum ${six(state.m)}: l grows by ${six(state.weights[at - 1])}` +
        ` to ${six(state.l)}.`;
    if (state.l_before === 0) return begin + "the first: it is the maximum, and l is 1.";
    return begin + `a new maximum: l = ${six(state.l_before)} shrinks by the factor ${six(state.rescale)}` +
      ` and grows by 1 to ${six(state.l)}; the output's sum shrinks alike.`;
  }

  function draw() {
    const result = compute(), num = result.states.length - 1, at = Math.min(taken, num);
    now.textContent = words(result.states, at);
    const drawn = [bars(result, at), steps(result.states, at)];
    if (at === num) drawn.push(results(result));
    return [...drawn, parts(result)];
  }

  const refresh = () => show(root, draw);
  function press(button, move) {
    form.elements[button].addEventListener("click", () => {
      const all = list(scores).length;
      taken = Math.max(0, Math.min(all, move(Math.min(taken, all))));
      if (taken === all) taken = Infinity;
      refresh();
    });
  }
  press("reset", () => 0);
  press("back", at => at - 1);
  press("forward", at => at + 1);
  press("end", () => Infinity);
  form.addEventListener("input", refresh);
  refresh();
});
