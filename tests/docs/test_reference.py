"""What Doxygen reads in place of a source file, its settings, and the count of what is documented."""

import pathlib
import shutil
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "docs/site")]
import calls  # noqa: E402
import coverage  # noqa: E402
import settings  # noqa: E402
import sources  # noqa: E402

TERMS = {"prompt": "term-prompt", "slot": "term-slot", "head_dim": "term-head-dim", "key": "term-key"}


def linked(word):
    return f'<a class="term" href="glossary.html#term-{word}">{word}</a>'


def convert(text, name="src/kv/cache/x.hpp"):
    return sources.convert(name, text, TERMS)


class Sources(unittest.TestCase):
    def test_lines_keep_their_numbers(self):
        text = "// Head.\n// More.\n#pragma once\n\nnamespace kv {\n//! [a]\n/// Doc.\nint f();\n" \
               "//! [a]\n}  // namespace kv\n"
        self.assertEqual(convert(text).count("\n"), text.count("\n"))

    def test_the_head_documents_the_file_in_its_group(self):
        self.assertEqual(convert("// Head.\n//\n// More.\n\n// Not.\n"),
                         "/// \\file kv/cache/x.hpp Head.\n///\n/// More. "
                         "\\ingroup reference_src_kv_cache\n\n// Not.\n")
        self.assertIn("\\file kernels/sass/x.cpp", convert("// H.\n", "kernels/sass/x.cpp"))

    def test_what_a_header_declares_is_in_the_group(self):
        text = "namespace kv {\nint f();\n}  // namespace kv\n"
        self.assertEqual(convert(text), "namespace kv { /** \\addtogroup reference_src_kv_cache */ "
                         "/** \\{ */\nint f();\n/** \\} */ }  // namespace kv\n")
        self.assertEqual(convert(text, "src/kv/cache/x.cpp"), text)

    def test_marks_and_standard_headers_are_left_out(self):
        self.assertEqual(convert("\n#include <vector>\n#include <Eigen/Core>\n  //! [a region]\n",
                                 "src/kv/x.cpp"), "\n\n#include <Eigen/Core>\n\n")

    def test_the_first_use_of_a_word_in_a_file_is_linked(self):
        text = convert("\n/// A prompt.\nint f();\n/// A prompt.\nint g();  ///< a slot\n",
                       "src/kv/x.cpp")
        self.assertEqual(text, f"\n/// A {linked('prompt')}.\nint f();\n/// A prompt.\n"
                               f"int g();  ///< a {linked('slot')}\n")

    def test_a_class_has_a_page_of_its_own(self):
        text = convert("\n/// A prompt.\nint f();\n/// A prompt.\nstruct S {\n  /// A prompt.\n};\n",
                       "src/kv/x.cpp")
        self.assertEqual(text.count(linked("prompt")), 2)

    def test_a_word_that_begins_a_sentence_is_no_class(self):
        self.assertEqual(convert("\n/// Rows of ids. A `Rows` of kv::Rows\n", "src/kv/x.cpp"),
                         "\n/// %Rows of ids. A `Rows` of kv::Rows\n")

    def test_no_links_in_code_and_names(self):
        for line in ("/// `slot`", "/// \\param slot", "/// [slot, 2]", "/// slot()", "/// x.slot",
                     "/// the head_dim", "/// a key", "///     slot", "// a slot", "int slot;",
                     "/// \\f$ slot \\f$", "/// \\copydoc slot", '/// "slot"'):
            with self.subTest(line):
                self.assertEqual(convert(f"\n{line}\n", "src/kv/x.cpp"), f"\n{line}\n")
        text = "\n/// \\code\n/// a slot\n/// \\endcode\n"
        self.assertEqual(convert(text, "src/kv/x.cpp"), text)


class Calls(unittest.TestCase):
    TEXT = """int a(int x) {
  return c(x) + d(x);
}
int b(int x) {
  if (x) {
    return y.a(x);
  }
  return 0;
}
"""
    LIST = (("a", "x.cpp", "kv::a"), ("b", "x.cpp", None), ("c", None, "kv::c"))

    def edges(self, functions):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "x.cpp").write_text(self.TEXT)
            return calls.edges(root, functions)

    def test_calls_are_read_from_the_bodies(self):
        self.assertEqual(self.edges(self.LIST), [("a", "c"), ("b", "a")])

    def test_a_list_that_is_out_of_date(self):
        for entry, fault in ((("e", "x.cpp", None), "x.cpp does not define e"),
                             (("e", None, None), "nobody calls e")):
            with self.assertRaisesRegex(calls.CallError, fault):
                self.edges((*self.LIST, entry))


class Settings(unittest.TestCase):
    def test_a_path_with_a_space_stays_one_path(self):
        text = settings.settings({"KV_SITE_BUILD": "/a b", "KV_SITE_SOURCE": "/c", "KV_AWESOME": "/d"})
        self.assertIn('"/a b/pages" docs/site/reference.dox', text)
        self.assertNotIn("$(", text)

    # As `doxygen -l` writes it, shortened.
    LAYOUT = """<navindex>
    <tab type="{tab}" visible="yes" title="" intro=""/>
  </navindex>
  <group>
    <briefdescription visible="yes"/>
    <memberdecl/>
    <detaileddescription title=""/>
  </group>"""

    def test_a_group_begins_with_what_it_is_for(self):
        for tab in ("modules", "topics"):
            layout = settings.layout(self.LAYOUT.format(tab=tab))
            self.assertIn(f'<tab type="{tab}" visible="yes" title="Reference"', layout)
            self.assertIn('<briefdescription visible="no"/>\n'
                          '    <detaileddescription title="What it is for"/>\n    <memberdecl/>\n'
                          '  </group>', layout)

    def test_a_layout_that_has_changed_is_an_error(self):
        with self.assertRaises(SystemExit):
            settings.layout(self.LAYOUT.format(tab="themes"))


@unittest.skipUnless(shutil.which("doxygen"), "Doxygen is not here")
class Coverage(unittest.TestCase):
    GOOD = """// A file.
#pragma once
/// All.
namespace kv {
/// A class.
class A {
 public:
  A() = default;
  /// \\param size its size
  explicit A(int size);
  int held = 0;  ///< how many

 private:
  int hidden(int x);
};
/// Adds n to \\p a.
void add(A& a, int n);
%s
namespace { int inner; }
}  // namespace kv
"""

    def missing(self, addition):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in (("src/kv/x.hpp", self.GOOD % addition), ("kernels/y.cpp", ""),
                               ("chapters/z.cpp", ""), ("docs/site/reference.dox", "/** \\defgroup "
                               "reference_src_kv x\n\\brief Code. */"), ("docs/glossary.md", "# G\n")):
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            (root / "docs/site/filter.sh").symlink_to(HERE.parents[1] / "docs/site/filter.sh")
            (root / "out").mkdir()
            found = coverage.Coverage(coverage.read_code(root, root / "out"))
            self.assertEqual(found.all.total() - found.documented.total(), len(found.missing))
            return found.missing

    def test_all_is_documented(self):
        self.assertEqual(self.missing(""), [])

    def test_what_is_missing_is_found(self):
        for addition, line in (
                ("void f();", "kv/x.hpp: function kv::f is not documented"),
                ("/// Takes n.\nvoid f(int n, int m);", "kv/x.hpp: kv::f: nothing is said of m"),
                ("struct B {};", "kv/x.hpp: struct kv::B is not documented"),
                ("inline constexpr int kX = 1;", "kv/x.hpp: variable kv::kX is not documented"),
                ("/// E.\nenum class E {\n  a,  ///< one\n  b\n};",
                 "kv/x.hpp: enum value kv::E::b is not documented"),
                ("/// E.\nenum class E {\n  a  ///< one\n};\nusing F = E;",
                 "kv/x.hpp: typedef kv::F is not documented")):
            with self.subTest(addition):
                self.assertEqual(self.missing(addition), [line])


if __name__ == "__main__":
    unittest.main()
