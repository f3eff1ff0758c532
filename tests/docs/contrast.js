// Texts of the page whose contrast with what is behind them is less than WCAG 2.1 asks (AA): 4.5, and
// 3 for large text. Returns [where, sample, text colour, colour behind, ratio] for each kind of text.
function lowContrast() {
  // A CSS colour as [r, g, b, alpha], the first three from 0 to 255.
  function parse(text) {
    const numbers = (text.match(/-?[\d.]+(?:e-?\d+)?/g) || []).map(Number);
    if (text.startsWith("color(srgb")) return [...numbers.slice(0, 3).map(x => 255 * x), numbers[3] ?? 1];
    return text.startsWith("rgb") ? [...numbers.slice(0, 3), numbers[3] ?? 1] : [0, 0, 0, 0];
  }
  const over = (top, below) => [0, 1, 2].map(i => top[3] * top[i] + (1 - top[3]) * below[i]).concat(1);
  const faded = (colour, opacity) => [...colour.slice(0, 3), colour[3] * opacity];
  const shown = colour => "#" + colour.slice(0, 3).map(x => Math.round(x).toString(16).padStart(2, "0")).join("");

  function luminance(colour) {
    const [r, g, b] = colour.slice(0, 3).map(x => x / 255)
      .map(x => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  }
  function ratio(a, b) {
    const [light, dark] = [luminance(a), luminance(b)].sort((x, y) => y - x);
    return (light + 0.05) / (dark + 0.05);
  }

  // What the site's own filters make of a colour: invert() and hue-rotate(180deg).
  function filtered(colour, filter) {
    for (const [, name, amount] of filter.matchAll(/([\w-]+)\(([\d.]+)/g)) {
      const [r, g, b] = colour;
      if (name === "invert")
        colour = [r, g, b].map(x => x + amount * (255 - 2 * x)).concat(colour[3]);
      else if (name === "hue-rotate" && Number(amount) === 180)
        colour = [[-0.574, 1.43, 0.144], [0.426, 0.43, 0.144], [0.426, 1.43, -0.856]]
          .map(w => Math.min(255, Math.max(0, w[0] * r + w[1] * g + w[2] * b))).concat(colour[3]);
      else throw new Error("a filter that is not known here: " + filter);
    }
    return colour;
  }

  // The parent of an element; of the root of an inner frame, the frame.
  const parent = e => e.parentElement || e.ownerDocument.defaultView.frameElement;
  // What an element inherits by being painted into its ancestors: their filters and opacity.
  const inherited = new Map([[null, {filter: "", opacity: 1}]]);
  function painted(e) {
    if (!inherited.has(e)) {
      const style = getComputedStyle(e), above = painted(parent(e));
      inherited.set(e, {filter: (style.filter === "none" ? "" : style.filter) + above.filter,
                        opacity: style.opacity * above.opacity});
    }
    return inherited.get(e);
  }
  const filterOn = e => painted(e).filter;
  const opacityOf = e => painted(e).opacity;

  // The fills of the shapes that lie under a text of a picture, topmost first.
  function shapesUnder(text, svg) {
    const box = text.getBoundingClientRect();
    const x = box.x + box.width / 2, y = box.y + box.height / 2;
    const found = [];
    for (const shape of svg.querySelectorAll("rect, circle, ellipse, polygon, path")) {
      if (!(shape.compareDocumentPosition(text) & Node.DOCUMENT_POSITION_FOLLOWING)) break;
      const style = getComputedStyle(shape);
      if (style.fill === "none" || shape.closest("defs, clipPath, mask, pattern") || !shape.getScreenCTM()) continue;
      const point = new DOMPoint(x, y).matrixTransform(shape.getScreenCTM().inverse());
      if (shape.isPointInFill(point))
        found.unshift(faded(parse(style.fill), style.fillOpacity * opacityOf(shape)));
    }
    return found;
  }

  const behind = new Map();
  // The colour behind an element: backgrounds from here to the first opaque one, blended.
  function background(element) {
    if (behind.has(element)) return behind.get(element);
    const layers = [];
    const svg = element.closest("svg");
    if (svg) layers.push(...shapesUnder(element, svg).map(c => filtered(c, filterOn(element))));
    for (let e = element; e && !(layers.length && layers.at(-1)[3] === 1); e = parent(e)) {
      const style = getComputedStyle(e);
      // Of a gradient the colours are tried as one layer each: enough for one that hardly changes.
      if (style.backgroundImage.includes("gradient("))
        layers.push(...style.backgroundImage.match(/rgba?\([^)]*\)/g).map(parse));
      layers.push(filtered(parse(style.backgroundColor), filterOn(e)));
    }
    layers.push([255, 255, 255, 1]);
    const colour = layers.reduceRight((below, layer) => over(layer, below), [255, 255, 255, 1]);
    behind.set(element, colour);
    return colour;
  }

  function name(e) {
    const classes = [...e.classList].slice(0, 2).map(c => "." + c).join("");
    return e.localName + (e.id ? "#" + e.id : classes);
  }
  const where = e => [e.parentElement?.parentElement, e.parentElement, e].filter(Boolean).map(name).join(" > ");

  const faults = new Map();
  const seen = new Map();  // elements of one look need one calculation
  function check(element, sample) {
    const style = getComputedStyle(element);
    const isPicture = element.closest("svg") !== null;
    const raw = parse(isPicture ? style.fill : style.color);
    const below = background(element);
    const opacity = opacityOf(element) * (isPicture ? style.fillOpacity : 1);
    const key = [raw, below, opacity, style.fontSize, style.fontWeight, filterOn(element)].join();
    if (seen.get(key)) return;
    const colour = over(faded(filtered(raw, filterOn(element)), opacity), below);
    const size = parseFloat(style.fontSize);
    const isLarge = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    const contrast = ratio(colour, below);
    const isGood = contrast >= (isLarge ? 3 : 4.5);
    seen.set(key, isGood);
    if (isGood) return;
    const fault = [where(element), sample.trim().slice(0, 30), shown(colour), shown(below), contrast.toFixed(2)];
    faults.set([fault[2], fault[3], name(element)].join(), fault);
  }

  function isSeen(element, range) {
    if (!element.checkVisibility({opacityProperty: true, visibilityProperty: true})) return false;
    if (element.closest(":disabled, .katex-mathml, noscript, script, style, title, desc")) return false;
    return [...range.getClientRects()].some(box => box.width > 1 && box.height > 1);
  }

  function walk(document) {
    const range = document.createRange();
    const texts = document.createTreeWalker(document.documentElement, NodeFilter.SHOW_TEXT);
    let count = 0;
    while (texts.nextNode()) {
      const node = texts.currentNode;
      if (!node.data.trim()) continue;
      range.selectNodeContents(node);
      if (!isSeen(node.parentElement, range)) continue;
      ++count;
      check(node.parentElement, node.data);
    }
    for (const input of document.querySelectorAll("input, select, textarea, button"))
      if (input.checkVisibility({visibilityProperty: true})) check(input, input.value || input.localName);
    for (const frame of document.querySelectorAll("iframe, object"))
      if (frame.contentDocument && frame.contentDocument.documentElement && frame.checkVisibility())
        count += walk(frame.contentDocument);
    return count;
  }
  for (const part of document.querySelectorAll("details")) part.open = true;
  const count = walk(document);
  return {count, faults: [...faults.values()]};
}
return lowContrast();
