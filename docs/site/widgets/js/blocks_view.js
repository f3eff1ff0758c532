// Draws a step of a trace: what happened, the block tables, the blocks. Traces of the page and of files
// look alike, for they are alike.
"use strict";

const KvBlockView = (() => {
  const {element, scroll, cell, row} = KvWidgets;

  /// What the events of a kind say of their blocks, in a sentence and at the block.
  const words = {
    allocate: ["Taken from the free blocks", "taken"],
    share: ["One more holder", "one holder more"],
    release: ["One holder less", "one holder less"],
    free: ["Free again", "free again"],
    copy: ["Copied before the write", "copy"],
    learn: ["Known to the prefix index from now on, which is one more holder", "now known"],
    evict: ["Forgotten by the prefix index to make room", "forgotten"],
    exhausted: ["Exhausted: there were too few blocks, and none was taken", "exhausted"]};
  const counted = ["share", "release", "learn"];

  /// The events of a step in sentences; those of one kind that follow each other in one.
  function sentences(step) {
    const groups = [];
    for (const event of step.events) {
      if (groups.at(-1)?.[0].kind === event.kind) groups.at(-1).push(event);
      else groups.push([event]);
    }
    const block = event => event.kind === "copy" ? `${event.from} into ${event.block}`
      : counted.includes(event.kind) ? `${event.block} (now ${event.num_holders})` : event.block;
    const said = groups.map(([first, ...rest]) => first.kind === "exhausted"
      ? `${words.exhausted[0]}.`
      : `${words[first.kind][0]}: ${[first, ...rest].map(block).join(", ")}.`);
    return said.length ? said : ["No block was taken, shared or given back."];
  }

  /// Texts of the tokens in each block. Blocks that only the prefix index holds are in no table any
  /// more: they keep what an earlier step has shown.
  function contents(trace, at) {
    const held = Array.from({length: trace.num_blocks}, () => []);
    for (const step of trace.steps.slice(0, at + 1)) {
      for (const event of step.events) if (event.kind === "allocate") held[event.block] = [];
      for (const block of step.free) held[block] = [];
      const seen = new Set();
      for (const {blocks, length, texts} of step.tables)
        blocks.forEach((block, i) => {
          const first = i * trace.block_size, count = Math.min(trace.block_size, length - first);
          const found = Array.from({length: Math.max(0, count)}, (_, t) => texts[first + t] ?? `t${first + t}`);
          if (!seen.has(block) || found.length > held[block].length) held[block] = found;
          seen.add(block);
        });
    }
    return held;
  }

  const number = (count, what) => `${count} ${what}${count === 1 ? "" : "s"}`;
  const visible = text => text === "" ? "∅" : text.replace(/\n/g, "↵");

  // What the step did to each block, in a few words.
  function news(step) {
    const said = step.holders.map(() => []);
    for (const {kind, block, from} of step.events) {
      if (kind === "exhausted") continue;
      said[block].push(kind === "copy" ? `copy of ${from}` : words[kind][1]);
      if (kind === "copy") said[from].push(`copied to ${block}`);
    }
    return said.map(all => [...new Set(all)].join(", "));
  }

  function blockBox(id, trace, step, texts, said) {
    const known = step.known.find(entry => entry.block === id);
    const names = step.tables.filter(table => table.blocks.includes(id)).map(table => table.name);
    const parent = known && known.parent !== null ? `known, after ${known.parent}` : "known, a beginning";
    const isFree = step.holders[id] === 0;
    const cells = Array.from({length: trace.block_size}, (_, i) =>
      element("span", {class: i < texts.length ? "blocks-token" : "blocks-place"},
              i < texts.length ? visible(texts[i]) : known ? "?" : ""));
    const box = element("li", {"data-block": id,
      class: `blocks-box${isFree ? " blocks-free" : ""}${said ? " blocks-changed" : ""}`},
      element("span", {class: "blocks-head"}, element("strong", {}, `block ${id}`), " ",
              element("span", {class: "blocks-holders"}, isFree ? "free" : number(step.holders[id], "holder"))));
    if (!isFree) box.append(
      element("span", {class: "blocks-cells"}, ...cells),
      element("span", {class: "blocks-who"}, "held by " + [...names, ...known ? ["index"] : []].join(", ")));
    if (known) box.append(element("span", {class: "blocks-known"}, parent));
    if (said) box.append(element("span", {class: "blocks-news"}, said));
    return box;
  }

  function tables(trace, at) {
    const {tables: now} = trace.steps[at], before = at ? trace.steps[at - 1].tables : [];
    if (!now.length) return element("p", {}, "No sequence runs.");
    const ids = blocks => blocks.join(" ");
    const rows = now.map(({name, length, blocks}) => {
      const old = before.find(table => table.name === name);
      const changed = ids(old?.blocks ?? []) !== ids(blocks);
      return row(name, [cell(length),
        element("td", {}, changed ? element("strong", {}, ids(blocks)) : ids(blocks)),
        element("td", {}, !old ? "new" : changed ? ids(old.blocks) : "the same")], {"data-sequence": name});
    });
    return scroll("block tables", element("table", {},
      element("thead", {}, element("tr", {},
        ...["sequence", "tokens", "block table", "a step before"].map(
          (head, i) => element("th", i === 1 ? {scope: "col", class: "number"} : {scope: "col"}, head)))),
      element("tbody", {}, ...rows)));
  }

  /// What is shown of step `at`.
  function draw(trace, at) {
    const step = trace.steps[at], texts = contents(trace, at), said = news(step);
    const exhausted = step.events.some(event => event.kind === "exhausted");
    return [
      element("p", {class: exhausted ? "blocks-step blocks-exhausted" : "blocks-step"},
        `Step ${at} of ${trace.steps.length - 1}. `,
        element("strong", {"data-value": "narration"}, step.narration)),
      element("ul", {class: "blocks-events"}, ...sentences(step).map(text => element("li", {}, text))),
      tables(trace, at),
      element("ul", {class: "blocks-pool", "aria-label": "blocks"},
        ...step.holders.map((_, id) => blockBox(id, trace, step, texts[id], said[id]))),
      element("p", {"data-value": "free"}, step.free.length
        ? `Free, in the order in which they will be taken: ${step.free.join(" ")}.` : "No block is free.")];
  }

  return {draw, sentences};
})();
