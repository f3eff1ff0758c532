"""Puts a chapter's figures, SVG files written by hand, into its page.

On GitHub a figure is a picture of its own: its colours follow the system, its <title> says what it
shows and its <desc> what is in it, which is also the text that the README gives for it. In a page
it is a part of the page, so that its colours follow the switch and its text can be found.
"""

import html
import re

# A paragraph that is nothing but a figure; its text may have several lines.
FIGURE = re.compile(r"^!\[([^\]]*)\]\((figures/[\w-]+\.svg)\)$", re.MULTILINE)
IN_DARK = "@media (prefers-color-scheme: dark) { :root {"


class FigureError(Exception):
    """What is wrong with a figure; the text is one line."""


def one_line(text):
    return " ".join(html.unescape(text).split())


def part(svg, pattern):
    found = re.search(pattern, svg, re.DOTALL)
    if not found:
        raise FigureError(f"has no {pattern.split('>')[0]}>")
    return found[1]


def figure(svg, text, name):
    """The figure as HTML. `name` goes before its ids, which would clash with other figures'."""
    title, desc = part(svg, '<title id="title">(.*?)</title>'), part(svg, '<desc id="desc">(.*?)</desc>')
    if one_line(desc) != one_line(text):
        raise FigureError("its <desc> is not the text that the page gives for it")
    if svg.count(":root") != 2 or IN_DARK not in svg:
        raise FigureError("its colours are not set for :root, in light and in dark")
    # The caption takes the title's place. Paper is light, whatever the switch says.
    svg = re.sub(r"\s*<title.*?</title>", "", svg, flags=re.DOTALL)
    svg = svg.replace(IN_DARK, "@media screen { html.dark-mode {").replace(":root", "html")
    svg = re.sub(r'(id="|url\(#|aria-\w+=")(\w+)', rf"\g<1>{name}-\2", svg)
    return (f'<figure class="drawing"><div class="scroll">{svg.strip()}</div>\n'
            f'<figcaption id="{name}-title">{title}</figcaption></figure>\n')


class Figures:
    """The figures of a page, found while it is converted."""

    def __init__(self, page, folder):
        self.page, self.folder = page, folder
        self.parts = {}  # HTML by the name of the part's file

    def replace(self, text):
        """The page's text with a line that includes the part in place of each figure."""
        return FIGURE.sub(self._one, text)

    def _one(self, match):
        path = self.folder / match[2]
        if not path.is_file():
            raise FigureError(f"{self.page.source}: {match[2]} is not there")
        name = f"{self.page.label}-{path.stem}".replace("_", "-")
        try:
            self.parts[f"{name}.html"] = figure(path.read_text(encoding="utf-8"), match[1], name)
        except FigureError as error:
            raise FigureError(f"{self.page.source}: {match[2]}: {error}") from None
        return f"<!-- site: \\htmlinclude[block] {name}.html -->"
