// What the pages do once they are loaded: the theme's switch and buttons, and the equations.
DoxygenAwesomeDarkModeToggle.init();
DoxygenAwesomeFragmentCopyButton.init();
DoxygenAwesomeParagraphLink.init();
DoxygenAwesomeInteractiveToc.init();

document.addEventListener("DOMContentLoaded", () => {
  renderMathInElement(document.body, {
    delimiters: [
      {left: "\\[", right: "\\]", display: true},
      {left: "\\(", right: "\\)", display: false},
      {left: "\\begin{align*}", right: "\\end{align*}", display: true},
    ],
  });
  // Code and tables that are wider than the page scroll by keyboard too.
  for (const box of document.querySelectorAll("div.fragment, table.markdownTable, pre.fragment"))
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
});
