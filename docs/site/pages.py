"""Turns the Markdown of the repository into pages for Doxygen.

The same files are read on GitHub, so they hold no label, no @ref and no navigation: those are added
here, in copies. A line that is nothing but [FILE: REGION](LINK) becomes the quotation of a marked
region of the source, a figure a part of the page. What only the site shows stands in comments,
<!-- site: \\htmlinclude FILE -->.
"""

import dataclasses
import pathlib
import re

import figures
import glossary
import sources

ROOT = pathlib.Path(__file__).resolve().parents[2]


class SiteError(Exception):
    """What a person has to put right; the text is one line."""


@dataclasses.dataclass(frozen=True)
class Page:
    source: str  # path from the root of the repository
    label: str  # what @ref takes, and the name of the page's file


def page_list(root=ROOT):
    """All pages in the order of the navigation."""
    chapters = sorted(path.parent.name for path in root.glob("chapters/[0-9][0-9]_*/README.md"))
    return [
        Page("docs/site/index.md", "index"),
        *(Page(f"chapters/{name}/README.md", f"chapter_{name[:2]}") for name in chapters),
        Page("docs/site/test.md", "test"),
        Page("docs/site/evidence.md", "evidence"),
        Page("docs/site/search.md", "text_search"),
        Page("docs/glossary.md", "glossary"),
        Page("docs/kernels.md", "kernels"),
        Page("docs/emulator.md", "emulator"),
        Page("docs/paged-arrays.md", "paged_arrays"),
        Page("docs/fast.md", "fast_path"),
        Page("docs/tolerances.md", "tolerances"),
        Page("docs/references.md", "references"),
        Page("docs/instructors.md", "instructors"),
        Page("chapters/00_model/TRAINING.md", "training"),
    ]


def title_of(text, source):
    """The text of the first line, which is the page's heading."""
    match = re.match(r"# (.+)\n", text)
    if not match:
        raise SiteError(f"{source}: the first line is no heading")
    return match[1].strip()


def slug(heading):
    """The anchor that GitHub gives a heading."""
    plain = re.sub(r"[^\w\- ]", "", heading.lower())
    return plain.strip().replace(" ", "-")


def anchor(page, heading_slug):
    """A heading's anchor on the site, where anchors of all pages share one space of names."""
    return f"{page.label}-{heading_slug}"


def prose_lines(text):
    """Pairs of a line and whether it is prose: neither in a fence nor indented as code."""
    fenced, blank_before = False, True
    code = False
    for line in text.split("\n"):
        if line.startswith("```"):
            fenced = not fenced
            yield line, False
            continue
        if line.strip():
            # Indented lines after an empty one are code, and so are those that follow them.
            code = line.startswith("    ") and (code or blank_before)
        blank_before = not line.strip()
        yield line, not fenced and not code


class Converter:
    """Rewrites links, headings and comments of the pages."""

    def __init__(self, root=ROOT, pages=None):
        self.root = root
        self.pages = page_list(root) if pages is None else pages
        self.by_source = {page.source: page for page in self.pages}
        words = root / glossary.SOURCE
        self.terms = glossary.terms(words.read_text(encoding="utf-8")) if words.exists() else {}
        self.linked_files = set()  # repository files that the site has to carry along
        self.parts = {}  # HTML of the figures, by the name of its file

    def text_of(self, page):
        return (self.root / page.source).read_text(encoding="utf-8")

    def convert(self, page):
        """The page as Doxygen reads it, without what other generators add."""
        found = figures.Figures(page, (self.root / page.source).parent)
        try:
            text = found.replace(self.text_of(page))
        except figures.FigureError as error:
            raise SiteError(str(error)) from None
        self.parts |= found.parts
        title = title_of(text, page.source)
        self.linker = glossary.Linker(self.terms)
        self.is_bold = False
        lines = []
        for line, is_prose in prose_lines(text):
            self.is_bold = self.is_bold and bool(line.strip())  # a paragraph's end ends it
            lines.append(self._prose(line, page) if is_prose else line)
        body = "\n".join(lines[1:])
        body = re.sub(r"```math\n(.*?)```", r"\\f[\n\1\\f]", body, flags=re.DOTALL)
        # Doxygen itself gives the main page its label.
        label = "" if page.label == "index" else f" {{#{page.label}}}"
        return f"# {title}{label}\n\n[TOC]\n{body.rstrip()}\n"

    def _prose(self, line, page):
        heading = re.match(r"(#{2,4}) (.+)$", line)
        if heading:
            return f"{heading[1]} {heading[2]} {{#{anchor(page, slug(heading[2]))}}}"
        only_here = re.fullmatch(r"<!-- site: (.+) -->", line.strip())
        if only_here:
            return only_here[1]
        if re.fullmatch(r"<details><summary>.+</summary>|</details>", line.strip()):
            return f"\\htmlonly[block]{line.strip()}\\endhtmlonly"  # Doxygen closes its own at once
        quoted = re.fullmatch(r"\[`?([\w./-]+\.\w+)`?: ([^\]]+)\]\(([^)]+)\)", line.strip())
        if quoted:
            return f"\\snippet {quoted[1]} {quoted[2]}"
        line = re.sub(r"\$`(.+?)`\$", r"\\f$\1\\f$", line)
        line = re.sub(r"\[([^\]]+)\]\(([^)\s]+)\)", lambda m: self._link(m, page), line)
        line = re.sub(r"(?<!\[)`([\w.-]+(?:/[\w.-]+)+)`(?!\])", self._path, line)
        # Doxygen takes ** beside a tag or an equation for stars.
        line = re.sub(r"`[^`]*`|\*\*", self._bold, line)
        if page.source == glossary.SOURCE:
            return glossary.add_anchors(line)
        return self.linker.link(line) if page.label.startswith("chapter") else line

    def _link(self, match, page):
        text, target = match[1], match[2]
        if re.match(r"[a-z]+:", target):
            return match[0]
        path, _, fragment = target.partition("#")
        folder = (self.root / page.source).parent
        source = (folder / path).resolve() if path else self.root / page.source
        if not source.is_relative_to(self.root) or not source.exists():
            raise SiteError(f"{page.source}: the link {target} leads nowhere")
        name = str(source.relative_to(self.root))
        other = self.by_source.get("docs/site/index.md" if name == "README.md" else name)
        if other:
            return f"[{text}](@ref {anchor(other, fragment) if fragment else other.label})"
        return self._file(name, text)

    def _bold(self, match):
        if match[0] != "**":
            return match[0]
        self.is_bold = not self.is_bold
        return "<b>" if self.is_bold else "</b>"

    def _path(self, match):
        """A path in the text becomes a link to that file."""
        return self._file(match[1], match[0]) if (self.root / match[1]).is_file() else match[0]

    def _file(self, name, text):
        if sources.is_shown(name):
            return f'<a href="source:{name}">{text.replace("`", "")}</a>'
        self.linked_files.add(name)
        return f"[{text}](files/{name}.txt)"


def navigation(before, after):
    """The last line of a page: where it came from and where it goes on. Pairs (label, title)."""
    links = []
    if before:
        links.append(f'\\ref {before[0]} "← {before[1]}"')
    if after:
        links.append(f'\\ref {after[0]} "{after[1]} →"')
    return '\n<div class="chapter-nav">' + " ".join(links) + "</div>\n"
