"""coverage.py [ROOT]: everything public in the code is documented, parameters and enum values too.

Doxygen reads all of it, documented or not, and writes XML; here it is counted. Public is what a
header or a kernel file declares and neither a private section nor an anonymous namespace hides.

A parameter counts as documented when \\param says what it is, when the comment names it, when it is
the only one, so that the comment speaks of it, or when its type is a class or an enum of the course,
which says itself what it is. More \\param lines than that would repeat names.
"""

import collections
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs/site"))
import settings  # noqa: E402
import sources  # noqa: E402

SETTINGS = """
INPUT = docs/site/reference.dox src/kv kernels chapters
EXTRACT_ALL = YES
GENERATE_HTML = NO
GENERATE_XML = YES
XML_PROGRAMLISTING = NO
HAVE_DOT = NO
EXAMPLE_PATH =
DOTFILE_DIRS =
USE_MDFILE_AS_MAINPAGE =
LAYOUT_FILE =
HTML_HEADER =
HTML_FOOTER =
HTML_EXTRA_FILES =
HTML_EXTRA_STYLESHEET =
WARNINGS = NO
WARN_IF_UNDOCUMENTED = NO
WARN_IF_DOC_ERROR = NO
WARN_IF_INCOMPLETE_DOC = NO
WARN_AS_ERROR = NO
"""
COMPOUNDS = ("class", "struct", "union", "namespace", "group", "file")
MEMBERS = ("function", "variable", "typedef", "enum", "define")


def read_code(root, folder):
    """Doxygen's XML of the code, in the folder."""
    sources.write(root, folder / "code")
    variables = {"KV_SITE_BUILD": str(folder), "KV_SITE_SOURCE": str(root), "KV_AWESOME": ""}
    subprocess.run(["doxygen", "-"], input=settings.settings(variables) + SETTINGS, text=True, cwd=root,
                   env={**os.environ, **variables}, check=True)
    return [ElementTree.parse(path).getroot() for path in sorted((folder / "xml").glob("*.xml"))]


def text_of(element):
    """What its comment says."""
    parts = (element.find(tag) for tag in ("briefdescription", "detaileddescription"))
    return " ".join("".join(part.itertext()) for part in parts if part is not None).strip()


def place_of(element):
    found = element.find("location")
    return "" if found is None else found.get("file")


def is_public_compound(compound):
    name = compound.findtext("compoundname")
    if compound.get("kind") not in COMPOUNDS or compound.get("prot") == "private":
        return False
    if "@" in name or "anonymous_namespace" in name:
        return False
    if compound.get("kind") != "file":
        return not place_of(compound).endswith(".cpp")
    # A .cpp file without a comment of its own defines what its header has declared and explained.
    return not name.endswith((".cpp", ".dox")) or bool(text_of(compound))


def is_public_member(member):
    if member.get("kind") not in MEMBERS or member.get("prot") == "private":
        return False
    if place_of(member).endswith(".cpp"):
        return False
    # Doxygen takes members of a class in an anonymous namespace for the file's.
    if place_of(member).endswith(".cu") and "::" not in (member.findtext("qualifiedname") or ""):
        return False
    # What C++ itself defines, or forbids, needs no words; nor does a destructor.
    end = member.findtext("argsstring") or ""
    return not end.endswith(("=delete", "=default")) and not member.findtext("name").startswith("~")


def undocumented_parameters(function, classes):
    """The parameters of which nothing is said."""
    names = [p.findtext("declname") for p in function.findall("param") if p.findtext("declname")]
    if len(names) < 2 or function.find("reimplements") is not None:
        return names, []
    said = set(re.findall(r"\w+", text_of(function)))
    missing = []
    for parameter in function.findall("param"):
        of_class = classes & set(re.findall(r"\w+", "".join(parameter.find("type").itertext())))
        name = parameter.findtext("declname")
        if name and name not in said and not of_class:
            missing.append(name)
    return names, missing


class Coverage:
    """Counts by kind, and what is missing, a line each."""

    def __init__(self, trees):
        self.all, self.documented, self.missing = collections.Counter(), collections.Counter(), []
        compounds = [c for tree in trees for c in tree.findall("compounddef") if is_public_compound(c)]
        classes = {re.split(r"::|<", c.findtext("compoundname"))[-1] for c in compounds
                   if c.get("kind") in ("class", "struct", "union")}
        classes |= {m.findtext("name") for c in compounds for m in c.iter("memberdef")
                    if m.get("kind") == "enum"}
        seen = set()
        for compound in compounds:
            self.count(compound.get("kind"), compound.findtext("compoundname"), compound)
            for member in compound.iter("memberdef"):
                # A member of a namespace is also one of its file and of its group.
                if member.get("id") not in seen and is_public_member(member):
                    seen.add(member.get("id"))
                    self.count_member(member, classes)

    def count(self, kind, name, element, place=None):
        self.all[kind] += 1
        if text_of(element):
            self.documented[kind] += 1
        else:
            self.missing.append(f"{place or place_of(element)}: {kind} {name} is not documented")

    def count_member(self, member, classes):
        name = member.findtext("qualifiedname") or member.findtext("name")
        self.count(member.get("kind"), name, member)
        for value in member.findall("enumvalue"):
            self.count("enum value", f"{name}::{value.findtext('name')}", value, place_of(member))
        if member.get("kind") == "function":
            names, missing = undocumented_parameters(member, classes)
            self.all["parameter"] += len(names)
            self.documented["parameter"] += len(names) - len(missing)
            for parameter in missing:
                self.missing.append(f"{place_of(member)}: {name}: nothing is said of {parameter}")


def main():
    root = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT
    with tempfile.TemporaryDirectory() as folder:
        coverage = Coverage(read_code(root, pathlib.Path(folder)))
    for line in coverage.missing:
        print(line)
    for kind in sorted(coverage.all):
        print(f"{kind:<10} {coverage.documented[kind]:>5} of {coverage.all[kind]:>5}")
    done, total = coverage.documented.total(), coverage.all.total()
    print(f"documented {done:>5} of {total:>5}, {100 * done / total:.1f} %")
    sys.exit(1 if coverage.missing else 0)


if __name__ == "__main__":
    main()
