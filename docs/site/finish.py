"""finish.py HTML: mends links, and names for readers who listen, in what Doxygen has written.

Pages link to source files as source:PATH, since only Doxygen knows the names of their pages: of two
files of one name it takes in as much of the folder as it needs. And the navigation looks for the
members of a namespace on the page of their file, where Doxygen has not put them, and in scripts whose
variables have no valid names. The menu of narrow screens gets the names of the pages.
"""

import html
import pathlib
import re
import sys

import access
from pages import ROOT, page_list, title_of

ENTRY = re.compile(r'(\[ "[^"]*", ")([^"#]+\.html)#(\w+)(")')


def source_pages(folder):
    """The page of each source file, by its path from the root of the repository."""
    found = {}
    for path in folder.glob("*_source.html"):
        text = path.read_text(encoding="utf-8")
        shown = re.search(r'<div class="title">(.*?)</div>', text)
        folders = re.findall(r'<li class="navelem">.*?>([^<]+)</a>', text)
        name = html.unescape(shown[1]).removesuffix(" Source File").strip()
        if folders and folders[-1] == name:  # where the file has a page of its own
            folders.pop()
        name = "/".join([*folders, name])
        # What is in src/ is shown without that folder, as #include names it.
        found[name if (ROOT / name).is_file() else f"src/{name}"] = path.name
    return found


def link_sources(folder):
    known, missing = source_pages(folder), set()

    def target(match):
        if match[1] not in known:
            missing.add(match[1])
        return f'href="{known.get(match[1], "")}"'

    for path in folder.glob("*.html"):
        text = path.read_text(encoding="utf-8")
        if 'href="source:' in text:
            path.write_text(re.sub(r'href="source:([^"]+)"', target, text), encoding="utf-8")
    if missing:
        sys.exit(f"site: no page for {', '.join(sorted(missing))}")


def mend_navigation(folder):
    anchors = {path.name: set(re.findall(r' (?:id|name)="(\w+)"', path.read_text(encoding="utf-8")))
               for path in folder.glob("*.html")}
    place = {anchor: name for name, found in anchors.items() if name.startswith("namespace")
             for anchor in found}

    def mended(match):
        page, anchor = match[2], match[3]
        if anchor in anchors.get(page, ()):
            return match[0]
        link = f"{place[anchor]}#{anchor}" if anchor in place else page
        return f"{match[1]}{link}{match[4]}"

    for path in folder.glob("*.js"):
        text = path.read_text(encoding="utf-8")
        if ENTRY.search(text):
            path.write_text(ENTRY.sub(mended, text), encoding="utf-8")


def rename_scripts(folder):
    """Doxygen names a script's variable after its file, which may begin with a digit; a name may not."""
    found = {path.stem for path in folder.glob("[0-9]*.js")}
    for path in folder.glob("*.js"):
        text = path.read_text(encoding="utf-8")
        new = re.sub(r'"(\d\w*)"', lambda m: f'"_{m[1]}"' if m[1] in found else m[0], text)
        if path.stem in found:
            path.unlink()
            path = path.with_name(f"_{path.name}")
            new = new.replace(f"var {path.stem[1:]} =", f"var {path.stem} =", 1)
        if new != text:
            path.write_text(new, encoding="utf-8")


def name_pages_in_menu(folder):
    """On narrow screens the menu is all there is of the navigation: it lists the pages by name, where
    Doxygen has one entry for all of them."""
    path = folder / "menudata.js"
    text = path.read_text(encoding="utf-8")
    titles = {page.label: title_of((ROOT / page.source).read_text(encoding="utf-8"), page.source)
              for page in page_list() if page.label != "index"}
    entries = ",\n".join(f'{{text:"{title}",url:"{label}.html"}}' for label, title in titles.items())
    new, count = re.subn(r'\{text:"Related Pages",url:"pages\.html"\}', lambda match: entries, text)
    if count != 1:
        sys.exit("site: Doxygen's menu has no entry for the pages")
    path.write_text(new, encoding="utf-8")


def main():
    folder = pathlib.Path(sys.argv[1])
    link_sources(folder)
    mend_navigation(folder)
    rename_scripts(folder)
    name_pages_in_menu(folder)
    access.mend(folder)


if __name__ == "__main__":
    main()
