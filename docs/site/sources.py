"""Turns the sources of the repository into what Doxygen reads in their place, line for line.

The sources stay plain C++. Added here: the comment at the head of a file becomes its documentation,
every folder is a group that holds what its headers declare, and the first use of a word of the
glossary links there.
"""

import pathlib
import re

import glossary

FOLDERS = ("src/kv", "kernels", "chapters")
ENDINGS = (".hpp", ".cpp", ".cuh", ".cu")
DECLARES = (".hpp", ".cuh", ".cu")  # a .cpp defines what its header has declared
# Classes named by a word that also begins sentences, where it is no link.
PLAIN_NAMES = re.compile(r"(?<![\w:%`.<])(Lane|Product|Resources|Rows|Sampler|Where)(?= [a-z])")
# Left out: the marks of regions that pages quote, which are no documentation, and the standard
# library's headers, which would hide in a graph what the files of the course have to do with each other.
LEFT_OUT = re.compile(r"\s*//! \[.*\]$|#include <\w+>$")
COMMENT = re.compile(r"(.*?///<? )(.*)$")
# What is no running text in a comment: what pages leave out, commands with their argument, names
# of the code, shapes.
NOT_TEXT = re.compile(
    glossary.NOT_TEXT.pattern +
    r"|[\\@](?:t?param|p|c|a|e|ref|throws|copydoc|snippet|retval|file|ingroup)(?:\[\w+\])? +\S+"
    r"|[\\@]\w+|\[[^\]]*\]|\"[^\"]*\"|\w*[\w>](?:::|\.|->|/|_)\w[\w./:]*|[\w:]+\(")
FENCES = {r"\code": r"\endcode", r"\verbatim": r"\endverbatim", r"\f[": r"\f]"}


def is_shown(name):
    """Whether the reference shows a file."""
    return (name.startswith(tuple(f"{folder}/" for folder in FOLDERS)) and name.endswith(ENDINGS)
            and "/exercise/" not in name and "/course/" not in name)


def paths(root):
    """All files that the reference shows, from the root of the repository."""
    found = (path for folder in FOLDERS for path in (root / folder).rglob("*"))
    return sorted(filter(is_shown, (str(path.relative_to(root)) for path in found)))


def group_of(name):
    """The group of a file: its folder, but all programs of the chapters are one."""
    folder = str(pathlib.PurePath(name).parent)
    return "reference_" + ("chapters" if folder.startswith("chapters") else folder.replace("/", "_"))


class Words:
    """Links the glossary's words in comments: once in what stands on a page of its own, a file's
    head or a class, and once in all the rest of a file."""

    def __init__(self, terms):
        self.terms = {term: anchor for term, anchor in terms.items()
                      if "_" not in term and term not in glossary.NAMES_IN_CODE}
        self.rest = self.now = glossary.Linker(self.terms, NOT_TEXT)
        self.fence = None

    def begin(self, is_page):
        """A comment begins that is not within a class."""
        self.now = glossary.Linker(self.terms, NOT_TEXT) if is_page else self.rest

    def link(self, line):
        """The line with its comment's words linked, if it has a comment."""
        match = COMMENT.match(line)
        if not match:
            return line
        text = match[2]
        if self.fence or text.startswith("   "):  # code, or an equation
            self.fence = None if self.fence and self.fence in text else self.fence
            return line
        self.fence = next((end for begin, end in FENCES.items() if begin in text), None)
        if self.fence:
            self.fence = None if self.fence in text else self.fence
            return line
        return match[1] + self.now.link(PLAIN_NAMES.sub(r"%\1", text))


def with_head(lines, name):
    """The first comment as the file's documentation, and how many lines it has."""
    size = 0
    while size < len(lines) and re.match(r"//( |$)", lines[size]):
        size += 1
    head = [f"/{line}" for line in lines[:size]]
    if head:
        head[0] = f"/// \\file {name.removeprefix('src/')} {head[0][4:]}"  # as #include names it
        head[-1] += f" \\ingroup {group_of(name)}"
    return head + lines[size:], size


def with_group(lines, name):
    """What a header declares is put into the group of its folder."""
    begin, end = f" /** \\addtogroup {group_of(name)} */ /** \\{{ */", "/** \\} */ "
    if "#pragma once" in lines and not any(line.startswith("namespace kv") for line in lines):
        # Names of CUDA's own, in no namespace.
        return [f"{line}{begin}" if line == "#pragma once" else line for line in lines[:-1]] + [end]
    return [line + begin if re.match(r"namespace kv[\w:]* \{$", line) else
            end + line if re.match(r"\}  // namespace kv", line) else line for line in lines]


def with_links(lines, head_size, terms):
    words = Words(terms)
    words.begin(True)
    for i, line in enumerate(lines):
        if i >= head_size and line.startswith("///") and not lines[i - 1].startswith("///"):
            after = next((other for other in lines[i:] if not other.startswith("///")), "")
            words.begin(re.match(r"(class|struct) \w+ [:{]", after))
        lines[i] = words.link(line)
    return lines


def convert(name, text, terms):
    """What Doxygen reads in place of a file."""
    lines = ["" if LEFT_OUT.match(line) else line for line in text.split("\n")]
    lines, head_size = with_head(lines, name)
    lines = with_links(lines, head_size, terms)
    if name.endswith(DECLARES):
        lines = with_group(lines, name)
    return "\n".join(lines)


def write(root, folder):
    """Writes every file's stand-in into the folder, under the file's own path."""
    terms = glossary.terms((root / glossary.SOURCE).read_text(encoding="utf-8"))
    for name in paths(root):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        text = (root / name).read_text(encoding="utf-8")
        target.write_text(convert(name, text, terms), encoding="utf-8")
