// Query heads above, KV heads below, a line from each query head to the KV head that it reads.
"use strict";

KvWidgets.add("heads", (root, call) => {
  const {element, scroll, show, numbers, withThousands} = KvWidgets;
  const form = root.querySelector("form");

  function picture(mapped, numKvHeads) {
    const numQHeads = mapped.kv_head.length;
    const step = Math.max(22, Math.min(34, 720 / numQHeads)), width = numQHeads * step, box = step - 4;
    const qAt = h => (h + 0.5) * step;
    const kvAt = head => (head + 0.5) * width / numKvHeads;
    const head = (x, y, name, kind) => [
      element("rect", {x: x - box / 2, y, width: box, height: box, rx: 3, class: kind}),
      element("text", {x, y: y + box / 2 + 4, "text-anchor": "middle"}, String(name))];
    const drawn = element("svg", {
      viewBox: `-34 0 ${width + 38} ${2 * box + 84}`, width: width + 38, role: "img",
      "aria-label": `${numQHeads} query heads read ${numKvHeads} KV heads, ` +
        `${mapped.group_size} each`});
    drawn.append(element("text", {x: -30, y: box / 2 + 6}, "q"),
                 element("text", {x: -30, y: box * 1.5 + 82}, "kv"));
    mapped.kv_head.forEach((kvHead, h) => drawn.append(element("line", {
      x1: qAt(h), y1: box + 4, x2: kvAt(kvHead), y2: box + 74,
      class: kvHead % 2 ? "widget-odd" : "widget-even"})));
    mapped.kv_head.forEach((kvHead, h) => drawn.append(
      ...head(qAt(h), 2, h, kvHead % 2 ? "widget-odd" : "widget-even")));
    for (let kv = 0; kv < numKvHeads; kv++)
      drawn.append(...head(kvAt(kv), box + 76, kv, kv % 2 ? "widget-odd" : "widget-even"));
    return scroll("heads", drawn);
  }

  function name(numQHeads, numKvHeads) {
    if (numKvHeads === numQHeads) return "MHA: every query head has a KV head of its own";
    return numKvHeads === 1 ? "MQA: all query heads read one KV head"
                            : "GQA: groups of query heads share a KV head";
  }

  function draw() {
    const {q_heads, kv_heads, head_dim, layers} = numbers(form);
    const mapped = call("map_heads", q_heads, kv_heads, head_dim, layers);
    const value = (key, text) => element("strong", {"data-value": key}, text);
    return [
      picture(mapped, kv_heads),
      element("p", {}, `${name(q_heads, kv_heads)}. A group has `,
              value("group_size", withThousands(mapped.group_size)),
              " query heads, and a token takes ",
              value("bytes_per_token", withThousands(mapped.bytes_per_token)),
              " bytes in fp16; unshared it would take ",
              value("bytes_per_token_unshared", withThousands(mapped.bytes_per_token_unshared)),
              ".")];
  }

  form.addEventListener("input", () => show(root, draw));
  show(root, draw);
});
