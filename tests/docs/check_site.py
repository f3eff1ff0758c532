"""check_site.py HTML: every link of the built site leads somewhere, and nothing asks the network."""

import functools
import html.parser
import pathlib
import re
import sys
import urllib.parse

# What a page fetches by itself, as opposed to links that a reader may follow.
FETCHES = {("script", "src"), ("img", "src"), ("iframe", "src"), ("link", "href"), ("object", "data"),
           ("embed", "src"), ("source", "src"), ("video", "src"), ("audio", "src"), ("use", "href"),
           ("image", "href"), ("image", "xlink:href")}
# Links in scripts: of the navigation, of the search for names, of the search in the text.
LINK_IN_SCRIPT = re.compile(r"""(?m)\[ "[^"]*", "([^"]+\.html(?:#[^"]+)?)"|'(\.\./[^']+\.html(?:#[^']+)?)'"""
                            r"""|^"([\w.-]+\.html(?:#[^"]+)?)",$""")
# What must not be left of the Markdown, in text outside of code.
LEFT_OVER = re.compile(r"@ref |\\ref |\\snippet|\\f[$\[\]{}]|<!--|\{#[\w-]+\}|source:\w|(?<!char )\*\*")


class Page(html.parser.HTMLParser):
    """Links, fetches, anchors and text of one page."""

    def __init__(self, text):
        super().__init__()
        self.anchors, self.links, self.fetches, self.text = [], [], [], []
        self._code = 0
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self._code += tag in ("pre", "code", "script", "style") or (
            tag == "div" and ("class", "line") in attrs)
        for name, value in attrs:
            if value is None:
                continue
            if name == "id" or (tag == "a" and name == "name"):
                self.anchors.append(value)
            if (tag, name) in FETCHES:
                self.fetches.append(value)
            elif name in ("href", "xlink:href"):
                self.links.append(value)

    def handle_endtag(self, tag):
        self._code -= tag in ("pre", "code", "script", "style")

    def handle_data(self, data):
        if self._code <= 0:
            self.text.append(data)


class Site:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder).resolve()

    @functools.cache
    def page(self, path):
        return Page(path.read_text(encoding="utf-8"))

    @functools.cache
    def anchors(self, path):
        return set(self.page(path).anchors)

    def fault_of_link(self, path, link):
        """Why a link of a page leads nowhere, or None."""
        parts = urllib.parse.urlsplit(link)
        if parts.netloc or parts.scheme in ("mailto", "javascript", "data"):
            return None
        if parts.scheme:
            return "neither a page of the site nor a web address"
        target = path
        if parts.path:
            target = (path.parent / urllib.parse.unquote(parts.path)).resolve()
            if not target.is_relative_to(self.folder):
                return "leads out of the site"
            if not target.is_file():
                return "no such file"
        fragment = urllib.parse.unquote(parts.fragment)
        if fragment and target.suffix in (".html", ".svg") and fragment not in self.anchors(target):
            return "no such anchor"
        return None

    def faults(self):
        """What is wrong with the site, a line each."""
        # Graphs link too. Doxygen's own picture of its name is not used here.
        pages = sorted(path for kind in ("*.html", "*.svg") for path in self.folder.rglob(kind)
                       if path.name != "doxygen.svg")
        if not (self.folder / "index.html").is_file():
            yield "index.html: is missing"
        for path in pages:
            name = path.relative_to(self.folder)
            page = self.page(path)
            for link in page.fetches:
                if re.match(r"(https?:)?//", link):
                    yield f"{name}: asks the network for {link}"
            for link in sorted({*page.links, *page.fetches}):
                fault = self.fault_of_link(path, link)
                if fault:
                    yield f"{name}: {link}: {fault}"
            for match in LEFT_OVER.finditer("".join(page.text)):
                yield f"{name}: '{match[0]}' is left in the text"
        for path in sorted(self.folder.rglob("*.css")):
            for url in re.findall(r"(?:url\(|@import )\s*[\"']?((?:https?:)?//[^\"')]+)",
                                  path.read_text(encoding="utf-8")):
                yield f"{path.relative_to(self.folder)}: asks the network for {url}"
        for path in sorted(self.folder.rglob("*.js")):
            # What follows this word are places in the navigation, not links.
            text = path.read_text(encoding="utf-8").partition("var NAVTREEINDEX")[0]
            found = LINK_IN_SCRIPT.findall(text)
            for link in sorted({"".join(groups) for groups in found}):
                fault = self.fault_of_link(path, link)
                if fault:
                    yield f"{path.relative_to(self.folder)}: {link}: {fault}"


def main():
    found = list(Site(sys.argv[1]).faults())
    for fault in found[:100]:
        print(fault)
    if len(found) > 100:
        print(f"and {len(found) - 100} more")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
