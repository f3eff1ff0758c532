"""link_sources.py HTML: the pages' links to source files get the names that Doxygen gave these.

Doxygen alone knows them: of two files of one name it takes in as much of the folder as it needs.
"""

import html
import pathlib
import re
import sys

from pages import ROOT


def source_pages(folder):
    """The page of each source file, by the path that Doxygen shows on it."""
    found = {}
    for path in folder.glob("*_source.html"):
        text = path.read_text(encoding="utf-8")
        shown = re.search(r'<div class="title">(.*?)</div>', text)
        folders = re.findall(r'<li class="navelem">.*?>([^<]+)</a>', text)
        name = html.unescape(shown[1]).removesuffix(" Source File").strip()
        if folders and folders[-1] == name:  # where the file has a page of its own
            folders.pop()
        found["/".join([*folders, name])] = path.name
    return found


def main():
    folder = pathlib.Path(sys.argv[1])
    known = source_pages(folder)
    # A source in src/ is shown without that folder, as #include names it.
    known |= {f"src/{name}": page for name, page in known.items() if (ROOT / "src" / name).is_file()}
    missing = set()
    for path in folder.glob("*.html"):
        text = path.read_text(encoding="utf-8")
        if 'href="source:' not in text:
            continue

        def target(match):
            if match[1] not in known:
                missing.add(match[1])
            return f'href="{known.get(match[1], "")}"'

        path.write_text(re.sub(r'href="source:([^"]+)"', target, text), encoding="utf-8")
    if missing:
        sys.exit(f"site: no page for {', '.join(sorted(missing))}")


if __name__ == "__main__":
    main()
