"""The checker of the built site, on sites with one fault each."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import check_site  # noqa: E402


class Checker(unittest.TestCase):
    GOOD = '<h1 id="top">x</h1><a href="#top">a</a><a href="https://web">b</a>' \
           '<a href="b.html#there">c</a><img src="p.svg">'

    def faults(self, index, style=""):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "index.html").write_text(index)
            (root / "b.html").write_text('<p id="there"></p>')
            (root / "p.svg").write_text("<svg/>")
            (root / "s.css").write_text(style)
            return list(check_site.Site(folder).faults())

    def test_a_good_site_has_no_faults(self):
        self.assertEqual(self.faults(self.GOOD, "a { background: url('p.svg') }"), [])

    def test_each_fault_is_found(self):
        for addition, fault in [
            ('<a href="c.html">', "index.html: c.html: no such file"),
            ('<a href="#c">', "index.html: #c: no such anchor"),
            ('<a href="b.html#c">', "index.html: b.html#c: no such anchor"),
            ('<a href="../c.html">', "index.html: ../c.html: leads out of the site"),
            ('<a href="source:x">', "neither a page of the site nor a web address"),
            ('<img src="c.svg">', "index.html: c.svg: no such file"),
            ('<script src="https://web/x.js"></script>', "asks the network for https://web/x.js"),
            ('<link href="//web/x.css">', "asks the network for //web/x.css"),
            ("<p>see @ref x</p>", "'@ref ' is left in the text"),
            ("<p>a **word</p>", "'**' is left in the text"),
            ("<p>\\snippet a b</p>", "'\\snippet' is left in the text"),
        ]:
            with self.subTest(addition):
                found = self.faults(self.GOOD + addition)
                self.assertEqual(len(found), 1, found)
                self.assertIn(fault, found[0])

    def test_links_in_scripts_and_pictures_are_checked(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "search").mkdir()
            for name, text in [("index.html", '<p id="a"></p>'),
                               ("nav.js", '[ "A", "index.html#a", null ], [ "B", "index.html#b", null ]'),
                               ("search/all.js", "['../index.html#a',1], ['../index.html#c',1]"),
                               ("text_index.js", '"T",\n"index.html#a",\n"index.html#d",\n"text"'),
                               ("g.svg", '<svg><a xlink:href="index.html#a"/><a href="index.html#e"/></svg>')]:
                (root / name).write_text(text)
            self.assertEqual(list(check_site.Site(folder).faults()), [
                "g.svg: index.html#e: no such anchor", "nav.js: index.html#b: no such anchor",
                "search/all.js: ../index.html#c: no such anchor",
                "text_index.js: index.html#d: no such anchor"])

    def test_code_may_show_commands(self):
        self.assertEqual(self.faults(self.GOOD + "<code>\\snippet</code>"), [])

    def test_styles_may_not_ask_the_network(self):
        self.assertEqual(len(self.faults(self.GOOD, "@import 'https://web/x.css';")), 1)
        self.assertEqual(len(self.faults(self.GOOD, "a { background: url(//web/x.png) }")), 1)


if __name__ == "__main__":
    unittest.main()
