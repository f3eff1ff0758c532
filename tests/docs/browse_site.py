"""browse_site.py HTML [--all]: opens the written pages and some others in Chromium, at 1280 and
390 pixels, in light and in dark: no error, no request beyond the disk, no equation that failed,
nothing wider than the page.

Needs chromium-driver and python3-selenium; without them it says so and ends with status 4.
"""

import argparse
import json
import pathlib
import sys

try:
    from selenium import webdriver
    from selenium.common.exceptions import WebDriverException
except ImportError:
    print("skipped: python3-selenium is not here")
    sys.exit(4)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "docs/site"))
from pages import page_list  # noqa: E402

REFERENCE = ["files", "namespacekv", "classkv_1_1BlockAllocator", "decoder_8cpp_source"]
WIDTHS = (1280, 390)
SCHEMES = ("light", "dark")
LOOK = """
const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
const content = document.getElementById("doc-content");
return {
  wide: Math.max(wide, content ? content.scrollWidth - content.clientWidth : 0),
  failed: [...document.querySelectorAll(".katex-error")].map(e => e.title),
  left: [...document.querySelectorAll("div.contents p, div.contents td")]
    .filter(e => /\\\\\\(|\\\\\\[/.test(e.textContent)).length,
  dark: document.documentElement.classList.contains("dark-mode"),
};
"""


def open_browser():
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                     "--allow-file-access-from-files"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(options=options)


def requests(browser):
    """Addresses that the page has asked for."""
    for entry in browser.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            yield message["params"]["request"]["url"]


def faults(browser, path, width, scheme):
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
        "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 768})
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {
        "features": [{"name": "prefers-color-scheme", "value": scheme}]})
    browser.get(path.as_uri())
    seen = browser.execute_script(LOOK)
    if seen["wide"] > 0:
        yield f"{seen['wide']} pixels wider than the window"
    if seen["failed"]:
        yield f"equations that failed: {seen['failed']}"
    if seen["left"]:
        yield f"{seen['left']} paragraphs with an equation that was not set"
    if seen["dark"] != (scheme == "dark"):
        yield f"is {'dark' if seen['dark'] else 'light'}"
    for entry in browser.get_log("browser"):
        if entry["level"] in ("SEVERE", "WARNING"):
            yield f"console: {entry['message']}"
    for url in requests(browser):
        if not url.startswith(("file:", "data:")):
            yield f"asks for {url}"


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


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("html", type=pathlib.Path)
    parser.add_argument("--all", action="store_true", help="every page of the site: half an hour")
    arguments = parser.parse_args()
    folder = arguments.html.resolve()
    paths = [folder / f"{name}.html" for name in [page.label for page in page_list()] + REFERENCE]
    if arguments.all:
        paths = sorted(folder.glob("*.html"))
    try:
        browser = open_browser()
    except WebDriverException as error:
        print(f"skipped: no Chromium to drive: {error.msg}")
        sys.exit(4)
    num_faults = 0
    try:
        for path in paths:
            for width in WIDTHS:
                for scheme in SCHEMES:
                    for fault in faults(browser, path, width, scheme):
                        print(f"{path.name}, {width} px, {scheme}: {fault}")
                        num_faults += 1
        for fault in search_faults(browser, folder):
            print(fault)
            num_faults += 1
    finally:
        browser.quit()
    print(f"{len(paths)} pages, {num_faults} faults")
    sys.exit(1 if num_faults else 0)


if __name__ == "__main__":
    main()
