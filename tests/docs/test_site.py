"""The generator of the site on small inputs."""

import pathlib
import re
import sys
import tempfile
import unittest
import xml.etree.ElementTree

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "docs/site"))
import access  # noqa: E402
import finish  # noqa: E402
import figures  # noqa: E402
import glossary  # noqa: E402
import pages  # noqa: E402
import parts  # noqa: E402
import text_index  # noqa: E402


class Repository(unittest.TestCase):
    """A folder with two pages and a source file."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.root = pathlib.Path(temporary.name).resolve()
        self.write("chapters/00_a/README.md", "# Chapter 0 · A\n\n## The picture\n")
        self.write("src/kv/x.cpp", "")
        self.write("notes.csv", "")
        self.pages = [pages.Page("chapters/00_a/README.md", "chapter_00"),
                      pages.Page("docs/b.md", "b")]

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def convert(self, body):
        self.write("docs/b.md", f"# B\n\n{body}\n")
        self.converter = pages.Converter(self.root, self.pages)
        return self.converter.convert(self.pages[1])

    def test_links_between_pages_become_references(self):
        text = self.convert("[zero](../chapters/00_a/README.md) "
                            "[there](../chapters/00_a/README.md#the-picture) [here](#c)\n\n## C")
        self.assertIn("[zero](@ref chapter_00)", text)
        self.assertIn("[there](@ref chapter_00-the-picture)", text)
        self.assertIn("[here](@ref b-c)", text)
        self.assertIn("## C {#b-c}", text)

    def test_links_to_files(self):
        text = self.convert("`src/kv/x.cpp`, `src/kv/none.cpp`, [data](../notes.csv), [web](https://a.b)")
        self.assertIn('<a href="source:src/kv/x.cpp">src/kv/x.cpp</a>', text)
        self.assertIn("`src/kv/none.cpp`", text)
        self.assertIn("[data](files/notes.csv.txt)", text)
        self.assertEqual(self.converter.linked_files, {"notes.csv"})
        self.assertIn("[web](https://a.b)", text)

    def test_a_dead_link_is_an_error(self):
        with self.assertRaisesRegex(pages.SiteError, "docs/b.md: the link gone.md leads nowhere"):
            self.convert("[gone](gone.md)")

    def test_quotations_equations_and_what_only_the_site_shows(self):
        text = self.convert("[src/kv/x.cpp: some region](../src/kv/x.cpp)\n\n$`a_b`$\n\n"
                            "```math\nx\n```\n\n<!-- site: \\htmlinclude w.html -->")
        self.assertIn("\n\\snippet src/kv/x.cpp some region\n", text)
        self.assertIn("\\f$a_b\\f$", text)
        self.assertIn("\\f[\nx\n\\f]", text)
        self.assertIn("\n\\htmlinclude w.html\n", text)

    def test_folded_parts_are_left_to_the_browser(self):
        text = self.convert("<details><summary>Answers</summary>\n\n1. `one`\n\n</details>")
        self.assertIn("\n\\htmlonly[block]<details><summary>Answers</summary>\\endhtmlonly\n\n1. `one`\n\n"
                      "\\htmlonly[block]</details>\\endhtmlonly\n", text)

    def test_bold_text_over_lines(self):
        text = self.convert("**one\n$`x`$ two**, `**`\n\n**three")
        self.assertIn("<b>one\n\\f$x\\f$ two</b>, `**`\n\n<b>three", text)

    def test_code_stays_as_it_is(self):
        code = "    [not](a-link)\n    # no heading\n\n```\n## none\n[no](link)\n```"
        self.assertIn(code, self.convert(code))

    def test_a_page_begins_with_its_title(self):
        self.assertTrue(self.convert("").startswith("# B {#b}\n"))
        with self.assertRaises(pages.SiteError):
            pages.title_of("text\n", "docs/b.md")


class Figures(Repository):
    SVG = """<svg class="drawing" aria-labelledby="title" aria-describedby="desc">
  <title id="title">Two a &lt; b</title>
  <desc id="desc">One row
    and another.</desc>
  <style>:root { --f: #000; } @media (prefers-color-scheme: dark) { :root { --f: #fff; } }</style>
  <marker id="head"/><path marker-end="url(#head)"/></svg>
"""
    TEXT = "![One row and\nanother.](figures/two_rows.svg)"

    def figure(self, svg, text=TEXT):
        self.write("docs/figures/two_rows.svg", svg)
        return self.convert(f"before\n\n{text}\n\nafter")

    def test_a_figure_becomes_a_part_of_the_page(self):
        text = self.figure(self.SVG)
        self.assertIn("before\n\n\\htmlinclude[block] b-two-rows.html\n\nafter", text)
        part = self.converter.parts["b-two-rows.html"]
        self.assertIn('<figcaption id="b-two-rows-title">Two a &lt; b</figcaption>', part)
        self.assertIn('aria-labelledby="b-two-rows-title" aria-describedby="b-two-rows-desc"', part)
        self.assertIn('<marker id="b-two-rows-head"/><path marker-end="url(#b-two-rows-head)"/>', part)
        self.assertNotIn("<title", part)

    def test_its_colours_follow_the_switch_and_paper_is_light(self):
        self.figure(self.SVG)
        part = self.converter.parts["b-two-rows.html"]
        self.assertIn("html { --f: #000; } @media screen { html.dark-mode { --f: #fff; } }", part)

    def test_faults_are_named(self):
        for svg, fault in [
            (self.SVG.replace("another", "a third"), "its <desc> is not the text"),
            (self.SVG.replace("title", "name"), "has no <title"),
            (self.SVG.replace("dark) { :root", "dark) { svg"), "in light and in dark"),
        ]:
            with self.subTest(fault), self.assertRaisesRegex(
                    pages.SiteError, f"docs/b.md: figures/two_rows.svg: .*{fault}"):
                self.figure(svg)
        with self.assertRaisesRegex(pages.SiteError, "docs/b.md: figures/gone.svg is not there"):
            self.convert("![text](figures/gone.svg)")


class CommittedFigures(unittest.TestCase):
    PATHS = sorted(pages.ROOT.glob("chapters/*/figures/*.svg"))

    def test_every_chapter_has_one_and_every_one_is_used(self):
        used = {page.parent / name for page in pages.ROOT.glob("chapters/[0-9][0-9]_*/README.md")
                for _, name in figures.FIGURE.findall(page.read_text(encoding="utf-8"))}
        self.assertEqual(set(self.PATHS), used)
        self.assertEqual({path.parents[1] for path in used},
                         {page.parent for page in pages.ROOT.glob("chapters/[0-9][0-9]_*/README.md")})

    def test_each_has_the_text_that_its_page_gives(self):
        for page in pages.page_list():
            path = pages.ROOT / page.source
            found = figures.Figures(page, path.parent)
            found.replace(path.read_text(encoding="utf-8"))  # or an error that names the figure
            self.assertEqual(bool(found.parts), page.label.startswith("chapter"), page.source)

    def test_they_are_small_and_read_alone(self):
        styles = set()
        for path in self.PATHS:
            with self.subTest(path.name):
                text = path.read_text(encoding="utf-8")
                drawing = xml.etree.ElementTree.fromstring(text)
                # Drawn for a narrow window: text of 13 units is no smaller than 11 pixels at 390.
                self.assertLessEqual(float(drawing.get("viewBox").split()[2]), 400)
                self.assertLess(len(text), 10_000)
                self.assertEqual(text.count("http"), 1, "asks for something beside its namespace")
                styles.add(re.search("<style>.*?</style>", text, re.DOTALL)[0])
        self.assertEqual(len(styles), 1, "figures of a page share their style")


class Parts(unittest.TestCase):
    def test_slugs_are_those_of_github(self):
        self.assertEqual(pages.slug("32 : 8 : 1"), "32--8--1")
        self.assertEqual(pages.slug("Predict, then run"), "predict-then-run")

    def test_the_diff_is_counted_coloured_and_escaped(self):
        text = parts.diff("same\nold <1>\n", "same\nnew\nmore\n", ["a", "b"])
        self.assertIn("2 lines added, 1 removed", text)
        self.assertIn('<span class="removed">-old &lt;1&gt;</span>', text)
        self.assertIn('<span class="added">+more</span>', text)
        self.assertIn('<span class="same"> same</span>', text)

    def test_text_is_no_markdown(self):
        self.assertEqual(parts.inline("a * b <c> `d_e`"), "a * b &lt;c&gt; <code>d_e</code>")

    def test_navigation(self):
        self.assertIn('\\ref a "← A" \\ref b "B →"', pages.navigation(("a", "A"), ("b", "B")))
        self.assertNotIn("←", pages.navigation(None, ("b", "B")))


class Glossary(unittest.TestCase):
    TABLE = "| term | meaning |\n|---|---|\n| block | tokens |\n| MHA, GQA | heads |\n| row | numbers |\n"

    def linker(self):
        return glossary.Linker(glossary.terms(self.TABLE))

    def test_terms_and_anchors(self):
        self.assertEqual(glossary.terms(self.TABLE), {"block": "term-block", "MHA": "term-mha-gqa",
                                                      "GQA": "term-mha-gqa", "row": "term-row"})
        self.assertEqual(glossary.add_anchors("| block | tokens |"),
                         '| <a class="anchor" id="term-block"></a>block | tokens |')
        self.assertEqual(glossary.add_anchors("|---|---|"), "|---|---|")

    def test_the_first_use_is_linked_and_no_other(self):
        linker = self.linker()
        self.assertEqual(linker.link("two blocks, a block"),
                         'two <a class="term" href="glossary.html#term-block">blocks</a>, a block')
        self.assertEqual(linker.link("block"), "block")

    def test_only_whole_words_of_running_text(self):
        for text in ("`block`", "[a block](@ref x)", "<b title='block'>", "\\f$block\\f$", "num_block",
                     "block-wise", "a row", "*a block*"):
            self.assertEqual(self.linker().link(text), text)


class TextIndex(unittest.TestCase):
    def test_sections_of_the_content_and_nothing_else(self):
        page = """<div id="top">menu</div><div class="header"><div class="title">T</div></div>
<div class="contents"><div class="toc"><div>list</div>of contents</div><p>first <b>words</b></p>
<h1><a class="anchor" id="t-one"></a>One</h1><p>second</p><script>let x;</script>
<h2><a class="anchor" id="t-two"></a>Two</h2><div class="fragment"><div class="line">code</div></div>
<div class="chapter-nav">next</div></div><div>footer</div>"""
        self.assertEqual(list(text_index.entries("t.html", page)), [
            ["T", "", "t.html", "first words"],
            ["T", "One", "t.html#t-one", "second"],
            ["T", "Two", "t.html#t-two", "code"]])


class Finish(Repository):
    def test_scripts_whose_names_begin_with_a_digit(self):
        self.write("html/01__a_8cu.js", 'var 01__a_8cu =\n[\n    [ "f", "01__a_8cu.html", null ]\n];')
        self.write("html/dir.js", '[ "01_a.cu", "01__a_8cu.html", "01__a_8cu" ], [ "1", "x.html", null ]')
        finish.rename_scripts(self.root / "html")
        read = {path.name: path.read_text() for path in (self.root / "html").iterdir()}
        self.assertEqual(read, {
            "_01__a_8cu.js": 'var _01__a_8cu =\n[\n    [ "f", "01__a_8cu.html", null ]\n];',
            "dir.js": '[ "01_a.cu", "01__a_8cu.html", "_01__a_8cu" ], [ "1", "x.html", null ]'})

    def test_the_menu_names_the_pages(self):
        self.write("html/menudata.js", '[{text:"Main Page",url:"index.html"},\n'
                   '{text:"Related Pages",url:"pages.html"},\n{text:"Files",url:"files.html"}]')
        finish.name_pages_in_menu(self.root / "html")
        menu = (self.root / "html/menudata.js").read_text()
        named = re.findall(r'url:"(\w+)\.html"', menu)
        self.assertEqual(named, [*(page.label for page in pages.page_list()), "files"])
        self.assertIn('{text:"Chapter 2 · The KV cache",url:"chapter_02.html"}', menu)
        with self.assertRaises(SystemExit):  # there is no such entry any more
            finish.name_pages_in_menu(self.root / "html")

    def test_names_for_readers_who_listen(self):
        self.write("html/a.html", '<title>T: Member List</title><div class="contents"><iframe src="g.svg">')
        self.write("html/b.html", '<title>B</title><div class="title">B</div><img src="p.svg">')
        self.write("html/menu.js", '<input type="text" id="MSearchField" value="">')
        access.mend(self.root / "html")
        read = {path.name: path.read_text() for path in (self.root / "html").iterdir()}
        self.assertIn('<div class="title" role="heading" aria-level="1">Member List</div>', read["a.html"])
        self.assertIn('<iframe title="Graph', read["a.html"])
        self.assertEqual(read["b.html"].count('role="heading"'), 1)
        self.assertIn('<img alt="" src="p.svg">', read["b.html"])
        self.assertIn('id="MSearchField" aria-label="', read["menu.js"])


class Tables(unittest.TestCase):
    """The chapters' table stands in the README and on the site's first page."""

    def rows(self, name):
        text = (pages.ROOT / name).read_text(encoding="utf-8")
        return re.findall(r"\| \[.*?\(.*?chapters/(\w+)/README.md\) \| (.*?) \|", text)

    def test_both_ask_the_same_of_every_chapter(self):
        chapters = [path.parent.name for path in
                    sorted(pages.ROOT.glob("chapters/[0-9][0-9]_*/README.md"))]
        self.assertEqual([name for name, _ in self.rows("README.md")], chapters)
        self.assertEqual(self.rows("README.md"), self.rows("docs/site/index.md"))


if __name__ == "__main__":
    unittest.main()
