// What stands in the way of a reader without a mouse or without sight. Returns a line for each fault.
function accessFaults() {
  const faults = [];
  const name = e => e.localName + (e.id ? "#" + e.id : [...e.classList].map(c => "." + c).join(""));
  const isSeen = e => e.checkVisibility({opacityProperty: true, visibilityProperty: true}) &&
    e.getClientRects().length > 0;

  if (!document.documentElement.lang) faults.push("html has no lang");
  if (!document.title.trim()) faults.push("the page has no title");
  const titles = document.querySelectorAll("h1.title, .title[role=heading][aria-level='1']");
  if (titles.length !== 1) faults.push(`${titles.length} headings that name the page`);

  // What a screen reader calls an element: the usual sources of a name, in their order.
  function nameOf(e) {
    const others = (e.getAttribute("aria-labelledby") || "").split(" ").map(id => document.getElementById(id));
    const inner = [...e.querySelectorAll("img[alt], [aria-label], svg title")]
      .map(x => x.getAttribute("alt") || x.getAttribute("aria-label") || x.textContent);
    const labels = [...(e.labels || [])].map(x => x.textContent);
    const own = e.matches("input, select, textarea, iframe, object") ? [] : [e.textContent];
    return [e.getAttribute("aria-label"), ...others.map(x => x?.textContent), e.alt, ...labels, ...own,
            ...inner, e.title].join("").trim();
  }
  const named = "a[href], button, input:not([type=hidden]), select, textarea, summary, iframe, object, " +
    "[role=button], [role=img], [role=slider], svg";
  for (const e of document.querySelectorAll(named))
    if (isSeen(e) && !e.closest("[aria-hidden=true], .katex") && !nameOf(e) &&
        !(e.localName === "svg" && e.closest("button, a, [role=button]")))
      faults.push(`${name(e)}: has no name`);
  for (const e of document.querySelectorAll("img:not([alt])"))
    if (isSeen(e)) faults.push(`${name(e)}: a picture without alt`);

  for (const e of document.querySelectorAll("body *"))
    if (e.onclick && isSeen(e) && !e.closest("[aria-hidden=true]") && e.tabIndex < 0 && !e.querySelector("a[href], button"))
      faults.push(`${name(e)}: answers a click and no key`);

  // The focus shows: something about the element's look differs.
  const still = document.head.appendChild(document.createElement("style"));
  still.textContent = "* { transition: none !important; animation: none !important; }";
  const look = e => {
    const s = getComputedStyle(e);
    return [s.outlineStyle === "none" ? "" : s.outlineWidth + s.outlineColor, s.boxShadow, s.borderColor,
            s.backgroundColor, s.textDecorationLine].join("|");
  };
  const tried = new Set();
  for (const e of document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex]")) {
    const kind = e.localName + e.className + (e.parentElement.className || e.parentElement.id);
    if (tried.has(kind) || e.tabIndex < 0 || e.disabled || !isSeen(e)) continue;
    tried.add(kind);
    const before = look(e);
    e.focus({preventScroll: true});
    if (document.activeElement === e && look(e) === before) faults.push(`${name(e)}: its focus does not show`);
    e.blur();
  }
  still.remove();
  return [...new Set(faults)];
}
return accessFaults();
