"""What spelling.py takes for a word, and that it finds a wrong one."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import spelling  # noqa: E402


class Words(unittest.TestCase):
    def test_prose_is_words_and_code_is_none(self):
        for text, words in [
            ("A wrog word, isn't it?", ["wrog", "word", "isn't"]),
            ("`wrog` <!-- wrog --> <b title='wrog'>bold</b> $`wrog`$", ["bold"]),
            ("the [text of a link](wrog/wrog.md#wrog) and https://wrog.org/wrog", ["the", "text", "link", "and"]),
            ("src/kv/wrog.hpp wrog_x wrog::x --wrog wrog2 f(wrog) x = wrog[3]", []),
            ("GPUs MHA RMSNorm it's Milakov's", ["Milakov"]),
            ("copy-on-write, top-left", ["copy", "write", "top", "left"]),
        ]:
            with self.subTest(text):
                self.assertEqual(list(spelling.words_of(text)), words)

    def test_each_kind_of_file_is_read(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in [
                ("README.md", "# Pageword\n\n    notread\n\n```\nnotread\n```\n"),
                ("chapters/01_x/quiz.toml", '[[question]]\ntext = "quizword"\n[[question.option]]\nwhy = "whyword"\n'),
                ("chapters/01_x/exercises.toml", '[[exercise]]\nsource = "notread"\nhints = ["hintword"]\n'),
                ("chapters/01_x/figures/a.svg", "<svg><title>titleword</title><text>svgword</text></svg>"),
                ("src/kv/a.hpp", "/// docword\nint notread;  ///< memberword\n//! [notread]\n"),
            ]:
                path = root / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            self.assertEqual(set(spelling.places_of_words(root)), {
                "Pageword", "quizword", "whyword", "hintword", "titleword", "svgword", "docword", "memberword"})


if __name__ == "__main__":
    unittest.main()
