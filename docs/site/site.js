// What the pages do once they are loaded: the theme's switch and buttons, and the equations.
DoxygenAwesomeDarkModeToggle.init();
DoxygenAwesomeFragmentCopyButton.init();
DoxygenAwesomeParagraphLink.init();
DoxygenAwesomeInteractiveToc.init();

// Paper is light.
let printsFromDark = false;
addEventListener("beforeprint", () => {
  printsFromDark = document.documentElement.classList.replace("dark-mode", "light-mode");
});
addEventListener("afterprint", () => {
  if (printsFromDark) document.documentElement.classList.replace("light-mode", "dark-mode");
});

document.addEventListener("DOMContentLoaded", () => {
  renderMathInElement(document.body, {
    delimiters: [
      {left: "\\[", right: "\\]", display: true},
      {left: "\\(", right: "\\)", display: false},
      {left: "\\begin{align*}", right: "\\end{align*}", display: true},
    ],
  });
  // Keys scroll the page at once: it is not the window that scrolls.
  const content = document.getElementById("doc-content");
  if (content && document.activeElement === document.body) {
    content.tabIndex = -1;
    content.focus({preventScroll: true});
  }
  // Code and tables that are wider than the page scroll by keyboard too.
  for (const box of document.querySelectorAll("div.fragment, table.markdownTable, pre.fragment"))
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
});

// Enter in the box of the navigation, which knows names of the code only, searches in the text.
addEventListener("keydown", event => {
  const box = event.target;
  if (event.key !== "Enter" || box.id !== "MSearchField" || !box.value.trim()) return;
  event.stopImmediatePropagation();
  location.href = "text_search.html?q=" + encodeURIComponent(box.value.trim());
}, true);
addEventListener("load", () => {
  document.getElementById("MSearchField")?.setAttribute("placeholder", "Names; Enter: text");
});

// A link to a folded part opens it.
function openTarget() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const folded = target?.closest("details");
  if (!folded || folded.open) return;
  folded.open = true;
  target.scrollIntoView();
}
addEventListener("hashchange", openTarget);
addEventListener("load", openTarget);

// What answers clicks becomes a button, for readers without a mouse or without sight.
window.addEventListener("load", () => {
  function makeButton(element, label) {
    element.tabIndex = 0;
    element.setAttribute("role", "button");
    element.setAttribute("aria-label", label);
    element.addEventListener("keydown", event => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      element.click();
    });
  }
  // The theme may make its buttons later than this.
  const kinds = ["doxygen-awesome-dark-mode-toggle", "doxygen-awesome-fragment-copy-button"]
    .map(name => name + ":not([role])").join();
  const makeButtons = () => document.querySelectorAll(kinds).forEach(button => makeButton(button, button.title));
  makeButtons();
  new MutationObserver(makeButtons).observe(document.body, {childList: true, subtree: true});
  // Lists of files and classes: the arrow is the button, the pictures beside it do the same.
  for (const entry of document.querySelectorAll("table.directory td.entry")) {
    const arrow = entry.querySelector(".arrow[onclick]");
    if (arrow) makeButton(arrow, "Fold or unfold " + entry.lastElementChild.textContent);
    for (const icon of entry.querySelectorAll(".icon, .iconfopen, .iconfclosed, .icondoc")) {
      const link = icon.closest("a") || icon;
      link.setAttribute("aria-hidden", "true");
      if (link !== icon) link.tabIndex = -1;
    }
  }
  for (const level of document.querySelectorAll("div.levels span[onclick]"))
    makeButton(level, "Unfold to level " + level.textContent);
});

// Widgets: the compiled C++ (widgets_wasm.js), what they share, and the script of each, in this order.
document.addEventListener("DOMContentLoaded", () => {
  const names = new Set([...document.querySelectorAll(".widget")].flatMap(
    root => (root.dataset.scripts ?? root.dataset.widget).split(" ")));
  if (names.size === 0) return;
  for (const name of ["widgets_wasm", "widgets", ...names]) {
    const script = document.createElement("script");
    script.src = `${name}.js`;
    script.async = false;
    document.body.append(script);
  }
});
