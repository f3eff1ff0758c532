"""Regions of the reference, and what the student's files are made of.

A region stands between two lines `//! [name]`: the pages quote it, and where it is an exercise its
code becomes a gap.
"""

import re

from manifest import CourseError

TODO = "KV_TODO();"


def is_marker(line):
    return line.strip().startswith("//! [")


def find(text, name, where):
    """The lines of a region, without its markers, as (first, end) indices of text's lines."""
    lines = text.split("\n")
    marks = [i for i, line in enumerate(lines) if line.strip() == f"//! [{name}]"]
    if len(marks) != 2:
        raise CourseError(f"{where}: region [{name}] has {len(marks)} markers, not 2")
    return marks[0] + 1, marks[1]


def region(text, name, where):
    first, end = find(text, name, where)
    return text.split("\n")[first:end]


def empty_functions(lines, does_nothing=False):
    """Functions without their bodies. A function begins and ends at the left margin, as
    clang-format lays it out.

    does_nothing: they return, with an empty value where one is wanted, instead of saying TODO.
    """
    result, inside, begin = [], False, 0
    for line in lines:
        if inside:
            inside = line != "}"
            if not inside:
                head = " ".join(result[begin:])
                code = "return;" if re.search(r"\bvoid ", head.split("(")[0]) else "return {};"
                result += [f"  {code if does_nothing else TODO}", "}"]
                begin = len(result)
        else:
            inside = line.endswith("{") and not line.startswith("namespace")
            result.append(line)
    return result


def indentation(lines):
    return min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)


def own_definition(lines, weak=False):
    """A region of the reference as a definition that replaces it when linked; a weak one can itself
    be replaced."""
    mark = "KV_EXERCISE " if weak else ""
    result, cut = [], 0  # cut: what was taken off a signature whose next lines stand under it
    for line in lines:
        bare = re.sub(r"^((?:KV_EXERCISE |KV_HD |inline )+)", "", line)
        if bare != line:
            cut = len(line) - len(bare) - len(mark)
            line = mark + bare
        elif cut > 0 and len(line) - len(line.lstrip()) > cut + 4:
            line = line[cut:]
        if line.endswith("{"):
            cut = 0
        result.append(line)
    return result
