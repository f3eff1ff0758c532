// What the widgets share: the course's C++ as functions, and helpers for forms, tables and numbers.
//
// A page holds <section class="widget" data-widget="NAME"> with a form (hidden until a script runs) and
// a picture, <div class="widget-view">, which is what the widget shows at first: without script it
// stays. A widget's own script registers itself: KvWidgets.add("NAME", (root, call) => ...).
"use strict";

const KvWidgets = (() => {
  let exports = null, words = "";

  const memory = () => new DataView(exports.memory.buffer);

  function textAt(start) {
    const bytes = new Uint8Array(exports.memory.buffer);
    return new TextDecoder().decode(bytes.subarray(start, bytes.indexOf(0, start)));
  }

  // Keeps what C++ writes to stderr: the words of an error. Everything else a program may ask of a
  // system is answered with 0.
  function write(file, vectors, count, written) {
    let size = 0;
    for (let i = 0; i < count; i++) {
      const start = memory().getUint32(vectors + 8 * i, true);
      const length = memory().getUint32(vectors + 8 * i + 4, true);
      words += new TextDecoder().decode(new Uint8Array(exports.memory.buffer, start, length));
      size += length;
    }
    memory().setUint32(written, size, true);
    return 0;
  }

  let compiled = null;
  function start() {
    compiled ??= new WebAssembly.Module(Uint8Array.from(atob(KV_WASM), c => c.charCodeAt(0)));
    const system = new Proxy({fd_write: write}, {get: (known, name) => known[name] ?? (() => 0)});
    exports = new WebAssembly.Instance(compiled, {wasi_snapshot_preview1: system}).exports;
    exports._initialize();
  }

  /// Calls a function of docs/site/widgets/cpp with numbers; the answer is JSON. What C++ refuses is
  /// thrown as an Error with its words, and the C++ side starts anew.
  function call(name, ...numbers) {
    if (!exports) start();
    words = "";
    try {
      return JSON.parse(textAt(exports[name](...numbers)));
    } catch (error) {
      exports = null;
      throw new Error(words.trim() || error.message);
    }
  }

  /// An element: KvWidgets.element("td", {class: "number"}, "12").
  function element(tag, attributes = {}, ...children) {
    const svg = ["svg", "rect", "path", "line", "text", "polyline"];
    const made = svg.includes(tag) ? document.createElementNS("http://www.w3.org/2000/svg", tag)
                                   : document.createElement(tag);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }

  /// What may be wider than the page scrolls in a box, which a keyboard reaches and which has a name.
  function scroll(name, content) {
    return element("div", {class: "scroll", tabindex: 0, role: "group", "aria-label": name}, content);
  }

  /// A cell of numbers. `key` names it for the tests.
  function cell(content, key) {
    return element("td", key ? {class: "number", "data-value": key} : {class: "number"}, content);
  }

  /// A row of a table; `attributes` are those of the tr.
  function row(name, cells, attributes = {}) {
    return element("tr", attributes, element("th", {scope: "row"}, name), ...cells);
  }

  /// A table of such rows; every column but the first has numbers.
  function table(name, heads, rows) {
    const headings = heads.map((head, i) =>
      element("th", i ? {scope: "col", class: "number"} : {scope: "col"}, head));
    return scroll(name, element("table", {}, element("tbody", {}, element("tr", {}, ...headings), ...rows)));
  }

  /// Options for a select, whose values are their places in the list.
  function fill(select, names, chosen) {
    select.replaceChildren(...names.map((name, value) => element("option", {value}, name)));
    select.value = names.indexOf(chosen);
  }

  /// Shows what `draw` returns (a list of elements) in the widget's view; when it throws, the words of
  /// the error in the widget's message, and the view stays.
  function show(root, draw) {
    const message = root.querySelector(".widget-message");
    try {
      const drawn = draw();
      root.querySelector(".widget-view").replaceChildren(...drawn);
      message.textContent = "";
    } catch (error) {
      message.textContent = error.message;
    }
    root.classList.toggle("widget-stale", message.textContent !== "");
  }

  /// The form's fields as numbers, by name. What is no number is NaN, which C++ refuses.
  function numbers(form) {
    const values = {};
    for (const field of form.elements)
      if (field.name) values[field.name] = field.value.trim() === "" ? NaN : Number(field.value);
    return values;
  }

  /// Numbers as the course's programs print them.
  const fourDigits = value => call("number_text", value, 0);
  const decimalBytes = value => call("number_text", value, 1);
  const binaryBytes = value => call("number_text", value, 2);
  const withThousands = value => call("number_text", value, 3);
  const duration = value => call("number_text", value, 4);

  /// Sets up the widgets of that name on the page: `set` gets the widget's element and call().
  function add(name, set) {
    if (!KV_WASM) return;  // nothing could be compiled: the pictures stay
    for (const root of document.querySelectorAll(`.widget[data-widget="${name}"]`)) {
      for (const hidden of root.querySelectorAll("[hidden]")) hidden.hidden = false;
      // No form is sent anywhere: the page stays.
      root.addEventListener("submit", event => event.preventDefault());
      set(root, call);
    }
  }

  return {add, call, element, scroll, cell, row, table, fill, show, numbers, withThousands, fourDigits,
          decimalBytes, binaryBytes, duration};
})();
