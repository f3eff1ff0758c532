"""Links the first use of a word of the glossary on each page to its line there."""

import re

SOURCE = "docs/glossary.md"
# Terms that are mostly used as words of everyday English.
PLAIN_WORDS = {"row", "pass", "state", "position", "context", "norm", "weights"}
# Terms that mean something else in much of the code: a map's key, a block of numbers in a file.
NAMES_IN_CODE = {"query", "key", "value", "block", "span", "head", "layer", "score", "token"}
# What is no running text: emphasis, code, links, tags, equations.
NOT_TEXT = re.compile(r"\*[^*\s][^*]*\*|`[^`]*`|\[[^\]]*\]\([^)]*\)|<[^>]*>|\\f\$.*?\\f\$")
ROW = re.compile(r"\| (?!term \|)([^|]*\w[^|]*) \|")  # neither the head of a table nor the rule below it


def anchor_of(term):
    return "term-" + re.sub(r"[^a-z0-9]+", "-", term.lower()).strip("-")


def terms(text):
    """The terms of the glossary's tables; a line may have several, with commas."""
    found = {}
    for line in text.split("\n"):
        row = ROW.match(line)
        if row:
            for term in row[1].split(", "):
                found[term] = anchor_of(row[1])
    return found


def add_anchors(line):
    """A line of the glossary itself."""
    row = ROW.match(line)
    if not row:
        return line
    return f'| <a class="anchor" id="{anchor_of(row[1])}"></a>{row[1]} |{line[row.end():]}'


class Linker:
    """Knows which terms a page has linked already."""

    def __init__(self, known, not_text=NOT_TEXT):
        self.not_text = not_text
        self.left = {term: anchor for term, anchor in known.items() if term not in PLAIN_WORDS}

    def link(self, line):
        """A line of running text with its new terms linked."""
        parts, begin = [], 0
        for match in self.not_text.finditer(line):
            parts += [self._text(line[begin:match.start()]), match[0]]
            begin = match.end()
        return "".join(parts) + self._text(line[begin:])

    def _text(self, text):
        if not self.left or not text.strip():
            return text
        # The longest first: "online softmax" before "softmax".
        choice = "|".join(re.escape(t) for t in sorted(self.left, key=len, reverse=True))
        return re.sub(rf"(?<![\w-])({choice})(s?)(?![\w-])", self._one, text)

    def _one(self, match):
        anchor = self.left.pop(match[1], None)
        if anchor is None:  # found twice in one text
            return match[0]
        return f'<a class="term" href="glossary.html#{anchor}">{match[0]}</a>'
