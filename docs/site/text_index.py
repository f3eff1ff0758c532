"""text_index.py HTML: makes text_index.js, which the search in the text reads, from the built pages."""

import html.parser
import json
import pathlib
import sys

from pages import page_list

SKIPPED = ("script", "style", "noscript", "nav", "svg")


class Sections(html.parser.HTMLParser):
    """The headings and the text of a page's content, section by section."""

    def __init__(self, text):
        super().__init__()
        self.sections = [["", "", []]]  # heading, anchor, pieces of text
        self.title = ""
        self._into, self._anchor, self._skipped = None, "", 0
        self._contents = 0  # depth of <div> in the content
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        kind = (attrs.get("class") or "").split()
        if tag == "div":
            if self._contents:
                self._contents += 1
                self._skipped += 1 if self._skipped or {"toc", "chapter-nav"} & set(kind) else 0
            elif "contents" in kind:
                self._contents = 1
            elif "title" in kind:
                self._into = "title"
        if tag in SKIPPED:
            self._skipped += 1
        if tag == "a" and "anchor" in kind:
            self._anchor = attrs.get("id", "")
        if tag in ("h1", "h2", "h3") and self._contents and not self._skipped:
            self.sections.append(["", "", []])
            self._into = "heading"

    def handle_endtag(self, tag):
        if tag in ("h1", "h2", "h3") and self._into == "heading":
            self.sections[-1][1] = self._anchor
            self._into = None
        if tag in SKIPPED:
            self._skipped -= 1
        if tag == "div":
            self._into = None if self._into == "title" else self._into
            if self._contents:
                self._contents -= 1
                self._skipped -= 1 if self._skipped else 0

    def handle_data(self, data):
        if self._into == "title":
            self.title += data
        elif self._contents and not self._skipped:
            if self._into == "heading":
                self.sections[-1][0] += data
            else:
                self.sections[-1][2].append(data)


def entries(name, text):
    """[title, section, link, text] for each section of a page that has text."""
    page = Sections(text)
    for heading, anchor, pieces in page.sections:
        words = " ".join(" ".join(pieces).split())
        if words:
            link = f"{name}#{anchor}" if anchor else name
            yield [page.title.strip(), heading.strip(), link, words]


def main():
    folder = pathlib.Path(sys.argv[1])
    found = []
    for page in page_list():
        path = folder / f"{page.label}.html"
        found += entries(path.name, path.read_text(encoding="utf-8"))
    (folder / "text_index.js").write_text(
        "const textIndex = " + json.dumps(found, ensure_ascii=False, indent=0) + ";\n", encoding="utf-8")


if __name__ == "__main__":
    main()
