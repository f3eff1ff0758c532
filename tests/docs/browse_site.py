"""browse_site.py HTML [--all] [PAGE...]: opens pages of the site in Chromium, at 1280 and 390 pixels,
in light and in dark: no error, no request beyond the disk, no equation that failed, nothing wider than
the page, no text too faint (WCAG 2.1 AA), nothing without a name or out of the keyboard's reach.

Without --all: the written pages and one of each kind of the reference's. Of the others, whose texts are
coloured and named alike, contrast and names are looked at in the wide window only. Skips as browser.py
says.
"""

import argparse
import concurrent.futures
import pathlib
import queue
import sys
import time

from browser import messages, open_browser, outside_requests, set_view

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "docs/site"))
from pages import page_list  # noqa: E402

# One page of each kind: the first of those whose name is such.
REFERENCE = ["files", "annotated", "classes", "functions", "group__*", "namespacekv", "dir_??????_*",
             "classkv_1_1BlockAllocator", "class*-members", "0*_8cu", "decoder_8hpp", "decoder_8cpp_source"]
# A page is loaded once for each width, in one scheme, and then shown in the other.
VIEWS = ((1280, ("light", "dark")), (390, ("dark", "light")))
LOOK = """
const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
const content = document.getElementById("doc-content");
return {
  wide: Math.max(wide, content ? content.scrollWidth - content.clientWidth : 0),
  // Where the page scrolls inside the window, the window itself must not: it would scroll the page away.
  tall: content && getComputedStyle(content).overflowY !== "visible"
    ? document.documentElement.scrollHeight - document.documentElement.clientHeight : 0,
  still: content && content.scrollHeight > content.clientHeight && document.activeElement === document.body,
  failed: [...document.querySelectorAll(".katex-error")].map(e => e.title),
  left: [...document.querySelectorAll("div.contents p, div.contents td")]
    .filter(e => /\\\\\\(|\\\\\\[/.test(e.textContent)).length,
  dark: document.documentElement.classList.contains("dark-mode"),
};
"""
CONTRAST = (HERE / "contrast.js").read_text(encoding="utf-8")
ACCESS = (HERE / "access.js").read_text(encoding="utf-8")


def look_faults(browser, scheme, with_contrast):
    seen = browser.execute_script(LOOK)
    if seen["wide"] > 0:
        yield f"{seen['wide']} pixels wider than the window"
    if seen["tall"] > 0:
        yield f"the window scrolls by {seen['tall']} pixels beside the page"
    if seen["still"]:
        yield "keys do not scroll the page: nothing in it has the focus"
    if seen["failed"]:
        yield f"equations that failed: {seen['failed']}"
    if seen["left"]:
        yield f"{seen['left']} paragraphs with an equation that was not set"
    if seen["dark"] != (scheme == "dark"):
        yield f"is {'dark' if seen['dark'] else 'light'}"
    if not with_contrast:
        return
    contrast = browser.execute_script(CONTRAST)
    if contrast["count"] == 0:
        yield "has no text"
    for place, sample, colour, behind, ratio in contrast["faults"]:
        yield f"contrast {ratio}: {colour} on {behind}: '{sample}' in {place}"


def page_faults(browser, path, is_sample=True):
    """What is wrong with a page, as (view, fault)."""
    for width, schemes in VIEWS:
        in_depth = is_sample or width == VIEWS[0][0]
        for number, scheme in enumerate(schemes):
            set_view(browser, width, scheme)
            if number == 0:
                browser.get(path.as_uri())
            for fault in look_faults(browser, scheme, in_depth):
                yield f"{width} px, {scheme}", fault
        for fault in browser.execute_script(ACCESS) if in_depth else ():
            yield f"{width} px", fault
        for message in messages(browser):
            yield f"{width} px", f"console: {message}"
        for url in outside_requests(browser):
            yield f"{width} px", f"asks for {url}"


# What is searched in the text, and a link that must be among the answers; None: no answer.
SEARCHES = (("second owner", None), ("copy-on-write", "chapter_05.html"),
            ("ridge operations", "glossary.html#glossary-gpu-and-cost"), ("bottom-rightest", None))


def search_faults(browser, folder):
    page = (folder / "text_search.html").as_uri()
    for words, expected in SEARCHES:
        browser.get(page + "?q=" + words.replace(" ", "+"))
        links = browser.execute_script(
            "return [...document.querySelectorAll('#text-search-results a')]"
            ".map(a => a.getAttribute('href'))")
        if expected is None and links:
            yield f"search for '{words}': {len(links)} answers, none is expected"
        if expected is not None and not any(link.startswith(expected) for link in links):
            yield f"search for '{words}': {expected} is not among {links}"
    # From any page: Enter in the box of the navigation.
    browser.get((folder / "index.html").as_uri())
    browser.find_element("id", "MSearchField").send_keys("bandwidth\n")
    if not browser.current_url.endswith("text_search.html?q=bandwidth"):
        yield f"Enter in the box of the navigation leads to {browser.current_url}"


def target_faults(browser, folder):
    """A link to a folded part opens it."""
    browser.get((folder / "evidence.html").as_uri() + "#record-waste")
    if not browser.execute_script("return document.getElementById('record-waste').open"):
        yield "evidence.html#record-waste is folded when a link leads there"


def browse(waiting, samples):
    """Faults of the pages that one browser takes from the queue."""
    found = []
    browser = open_browser()
    try:
        while True:
            try:
                path = waiting.get_nowait()
            except queue.Empty:
                return found
            if (left := waiting.qsize()) and left % 100 == 0:
                print(f"{left} pages left", flush=True)
            found += [f"{path.name}, {view}: {fault}"
                      for view, fault in page_faults(browser, path, path in samples)]
    finally:
        browser.quit()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("html", type=pathlib.Path)
    parser.add_argument("pages", nargs="*", help="names of pages, instead of the usual ones")
    parser.add_argument("--all", action="store_true", help="every page of the site: minutes")
    parser.add_argument("--jobs", type=int, default=2, help="browsers at the same time")
    arguments = parser.parse_args()
    folder, start = arguments.html.resolve(), time.monotonic()
    names = arguments.pages or [page.label for page in page_list()] + REFERENCE
    paths = samples = [(sorted(folder.glob(f"{name}.html")) or [folder / f"{name}.html"])[0] for name in names]
    if arguments.all:
        paths = sorted(folder.glob("*.html"))
    browser = open_browser()
    try:
        found = [*target_faults(browser, folder), *search_faults(browser, folder)]
    finally:
        browser.quit()
    waiting = queue.SimpleQueue()
    for path in paths:
        waiting.put(path)
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for part in [pool.submit(browse, waiting, samples) for _ in range(arguments.jobs)]:
            found += part.result()
    for fault in sorted(found):
        print(fault)
    print(f"{len(paths)} pages, {len(found)} faults, {time.monotonic() - start:.0f} s")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
