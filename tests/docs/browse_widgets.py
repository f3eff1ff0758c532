"""browse_widgets.py HTML VALUES [--update]: the widgets of the site in HTML, driven in Chromium.

Each line of widget_table.txt is answered alike by the WebAssembly of the page and by VALUES, the
program that the host's compiler has made of the same functions; what a widget shows first is the picture
that stands in for it without script (--update writes it anew), and does so where scripts do not run; every
control has a label and can be reached by the keyboard. The scenarios of each widget are in widgets_NAME.py beside this.
"""

import argparse
import importlib
import json
import math
import pathlib
import re
import subprocess
import sys

import browser as chromium

HERE = pathlib.Path(__file__).resolve().parent
WIDGETS = HERE.parents[1] / "docs/site/widgets"
TABLE = HERE / "widget_table.txt"
PAGES = {  # widget: the page it stands on
    "calculator": "chapter_02",
    "heads": "chapter_04",
    "blocks": "chapter_05",
    "softmax": "chapter_03",
    "roofline": "chapter_02",
}


class Native:
    """The host's program, and the folder where it lies beside the course's other programs."""

    def __init__(self, values):
        self.values = values
        self.folder = values.parent

    def __call__(self, lines):
        """What it answers to lines of "name number ..."."""
        run = subprocess.run([self.values], input="\n".join(lines) + "\n", text=True,
                             capture_output=True, check=True)
        return json.loads(run.stdout)


def in_page(browser, line):
    """What the page's WebAssembly answers to such a line."""
    name, *numbers = line.split()
    return browser.execute_script(
        "try { return KvWidgets.call(arguments[0], ...arguments[1].map(Number)); }"
        "catch (error) { return {error: error.message}; }", name, numbers)


def same(a, b):
    """Equal; numbers up to a few roundings, since expf and pow come from different libraries."""
    if isinstance(a, float) and isinstance(b, (int, float)):
        return math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-12)
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


def table_faults(browser, native):
    lines = TABLE.read_text().split("\n")[:-1]
    for line, expected in zip(lines, native(lines), strict=True):
        got = in_page(browser, line)
        if not same(expected, got):
            yield f"{line}: the page answers {got}, the program {expected}"


VIEW = re.compile(r'(<div class="widget-view">).*(</div>\s*</section>\s*)$', re.DOTALL)


def picture_fault(browser, name, update):
    """What the widget shows first is what its page shows without script."""
    shown = browser.execute_script(
        f"return document.querySelector('.widget[data-widget=\"{name}\"] .widget-view').innerHTML")
    shown = "\n" + re.sub(r"(</(?:tr|rect|line|text|p|g)>)", r"\1\n", shown).strip() + "\n"
    path = WIDGETS / f"html/{name}.html"
    text = path.read_text()
    wanted = VIEW.sub(lambda match: match[1] + shown + match[2], text)
    if wanted == text:
        return None
    if update:
        path.write_text(wanted)
    return f"{path.name}: without script it shows something else than the widget at first"


CONTROLS = """
const root = document.querySelector('.widget[data-widget="' + arguments[0] + '"]');
return [...root.querySelectorAll('input, select, button')].filter(
  control => control.offsetParent).map(control => ({
  name: control.name || control.textContent,
  labelled: !!(control.labels?.length || control.textContent.trim() || control.ariaLabel),
  reached: control.disabled || (control.focus(), document.activeElement === control)
    && control.tabIndex >= 0,
}));
"""


def control_faults(browser, name):
    controls = browser.execute_script(CONTROLS, name)
    if not controls:
        yield f"{name}: no control"
    for control in controls:
        if not control["labelled"]:
            yield f"{name}: the control {control['name']} has no label"
        if not control["reached"]:
            yield f"{name}: the control {control['name']} cannot be reached"


def faults(browser, folder, native, update):
    files = sorted(path.stem for path in WIDGETS.glob("html/*.html"))
    if files != sorted(PAGES):
        yield f"widgets {files}, but {sorted(PAGES)} are tested"
    for number, (name, page) in enumerate(PAGES.items()):
        browser.get((folder / f"{page}.html").as_uri())
        if number == 0:
            yield from table_faults(browser, native)
        fault = picture_fault(browser, name, update)
        if fault:
            yield fault
        yield from control_faults(browser, name)
        scenarios = importlib.import_module(f"widgets_{name}")
        for fault in scenarios.faults(browser, native):
            yield f"{name}: {fault}"
        for message in chromium.messages(browser):
            yield f"{name}: console: {message}"


WITHOUT_SCRIPT = """
const root = document.querySelector('.widget[data-widget="' + arguments[0] + '"]');
const view = root.querySelector('.widget-view');
return {
  ran: typeof KvWidgets !== 'undefined',
  form: root.querySelector('form').offsetHeight > 0,
  picture: view.offsetHeight > 60 && view.innerText.trim().length > 20,
};
"""


def faults_without_script(browser, folder):
    """A page whose scripts do not run shows the picture, and no form that does nothing."""
    for name, page in PAGES.items():
        browser.get((folder / f"{page}.html").as_uri())
        seen = browser.execute_script(WITHOUT_SCRIPT, name)
        if seen != {"ran": False, "form": False, "picture": True}:
            yield f"{name}, without script: {seen}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("html", type=pathlib.Path)
    parser.add_argument("values", type=pathlib.Path)
    parser.add_argument("--update", action="store_true", help="write the pictures anew")
    arguments = parser.parse_args()
    browser = chromium.open_browser()
    chromium.set_view(browser, 1280, "light")
    try:
        found = list(faults(browser, arguments.html.resolve(), Native(arguments.values.resolve()),
                            arguments.update))
    finally:
        browser.quit()
    browser = chromium.open_browser(runs_scripts=False)
    try:
        found += faults_without_script(browser, arguments.html.resolve())
    finally:
        browser.quit()
    for fault in found:
        print(fault)
    print(f"{len(PAGES)} widgets, {len(found)} faults")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
