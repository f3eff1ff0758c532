"""What browse_site.py looks for, on small pages with one fault each. Skips as browser.py says."""

import pathlib
import tempfile
import unittest

from browser import open_browser
from browse_site import page_faults

PAGE = """<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>T</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>html {{ background: #fff; color: #222; }} a {{ color: #125fa0; }}
.dark-mode {{ background: #222; color: #eee; }} .dark-mode a {{ color: #7ab8f0; }}</style><script>
const query = matchMedia("(prefers-color-scheme: dark)");
const follow = () => document.documentElement.classList.toggle("dark-mode", query.matches);
query.onchange = follow; follow();</script></head><body>
<div class="title" role="heading" aria-level="1">T</div><p>text <a href="#x">link</a></p>{}</body></html>"""
SVG = '<svg role="img" aria-label="s" width="90" height="40"><rect width="90" height="40" fill="{}"/>' \
      '<text y="20" fill="{}">word</text></svg>'
# A page as the theme makes it: its text scrolls in a box.
SCROLLS = '<div id="doc-content" style="height: {}; overflow-y: auto" tabindex="-1">' \
          '<div style="height: 3000px"></div></div>{}'

GOOD = [
    "",
    '<p style="color: #777; background: #fff; font-size: 24px">large text may be lighter</p>',
    '<p style="background: rgba(0, 0, 0, 0.9)"><span style="color: #fff">on a dark box</span></p>',
    '<p style="color: #ccc; background: #fff; display: none">not seen</p>',
    SVG.format("#000", "#fff"),
    '<div style="filter: invert(1); background: #fff; color: #222">turned over</div>',
    '<div style="overflow-x: auto"><div style="width: 2000px">wide, in a box that scrolls</div></div>',
    SCROLLS.format("300px", "<script>document.getElementById('doc-content').focus();</script>"),
    '<button style="color: #000; background: #fff" aria-label="go"><svg></svg></button>',
]
FAULTS = [
    ('<div style="width: 1500px">wide</div>', "pixels wider than the window"),
    (SCROLLS.format("300px", ""), "keys do not scroll the page"),
    (SCROLLS.format("2000px", "<script>document.getElementById('doc-content').focus();</script>"),
     "the window scrolls by"),
    ('<span class="katex-error" title="why"></span>', "equations that failed: ['why']"),
    ("<div class='contents'><p>\\(x\\)</p></div>", "1 paragraphs with an equation that was not set"),
    ("<script>query.onchange = null; document.documentElement.className = '';</script>", "is light"),
    ("<script>gone();</script>", "console: "),
    ('<img alt="x" src="gone.png">', "console: "),
    ('<img alt="x" src="http://outside.invalid/x.png">', "asks for http://outside.invalid/x.png"),
    ('<p style="color: #777; background: #fff">grey</p>', "contrast 4.48: #777777 on #ffffff: 'grey'"),
    ('<p style="opacity: 0.4">faded</p>', "'faded'"),
    ('<p style="background: rgba(0, 0, 0, 0.5)">half</p>', "'half'"),
    ('<details><summary>s</summary><p style="color: #bbb; background: #fff">folded</p></details>',
     "'folded'"),
    (SVG.format("#fff", "#ccc"), "contrast 1.61: #cccccc on #ffffff: 'word'"),
    ('<button><svg width="9" height="9"></svg></button>', "button: has no name"),
    ('<input type="text">', "input: has no name"),
    ('<svg width="9" height="9"></svg>', "svg: has no name"),
    ("<img src='data:image/gif;base64,R0lGODlhAQABAAAAACw='>", "img: a picture without alt"),
    ('<p onclick="f()">x</p>', "p: answers a click and no key"),
    ('<a href="#y" class="y" style="outline: none">y</a>', "a.y: its focus does not show"),
    ('<div class="title" role="heading" aria-level="1">U</div>', "2 headings that name the page"),
]


class Browse(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = open_browser()
        cls.addClassCleanup(cls.browser.quit)

    def faults(self, addition, page=PAGE):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "page.html"
            path.write_text(page.format(addition), encoding="utf-8")
            return [fault for _, fault in page_faults(self.browser, path)]

    def test_good_pages_have_no_faults(self):
        for addition in GOOD:
            with self.subTest(addition):
                self.assertEqual(self.faults(addition), [])

    def test_each_fault_is_found_and_no_other(self):
        for addition, expected in FAULTS:
            with self.subTest(addition):
                found = self.faults(addition)
                self.assertTrue(any(expected in fault for fault in found), found)
                others = [f for f in found if expected not in f and not f.startswith("console: ")]
                self.assertEqual(others, [])

    def test_the_language_is_named(self):
        self.assertIn("html has no lang", self.faults("", PAGE.replace(' lang="en"', "")))


if __name__ == "__main__":
    unittest.main()
