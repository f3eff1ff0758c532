"""Names in what Doxygen has written, for readers who listen to it: titles, the search box, graphs."""

import re

CHANGES = (
    # Doxygen's titles are no headings.
    (re.compile(r'<div class="title">'), '<div class="title" role="heading" aria-level="1">'),
    (re.compile(r'<input type="text" id="MSearchField"'), r'\g<0> aria-label="Search the names of the code"'),
    (re.compile(r'<a id="MSearchClose"'), r'\g<0> aria-label="Close the answers"'),
    (re.compile(r'<iframe (?!title)'), '<iframe title="Graph: what is named above it" '),
    (re.compile(r'<img (?![^>]*\balt=)'), '<img alt="" '),
)
CONTENTS = '<div class="contents">'


def with_title(text):
    """Doxygen's lists of members have no title on the page."""
    title = re.search(r"<title>(?:.*: )?(.*?)</title>", text)
    if not title or 'class="title"' in text:
        return text
    return text.replace(CONTENTS, '<div class="header"><div class="headertitle"><div class="title">'
                        f"{title[1]}</div></div></div>\n{CONTENTS}", 1)


def mend(folder):
    for path in [*folder.glob("*.html"), folder / "menu.js"]:
        old = path.read_text(encoding="utf-8")
        text = with_title(old) if path.suffix == ".html" else old
        for pattern, replacement in CHANGES:
            text = pattern.sub(replacement, text)
        if text != old:
            path.write_text(text, encoding="utf-8")
