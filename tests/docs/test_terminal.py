"""The README's picture of a terminal: it is what the record makes, and shows what the record says."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "docs/site"))
import records  # noqa: E402
import terminal_picture as picture  # noqa: E402

RECORD = """command: bin/x --tokens 5
date: 2026-01-02
machine: 2 cores

First Citizen:
one <word>
left out

Cost: left out

Time per token
\u2801\u28ff a
"""


class Terminal(unittest.TestCase):
    def test_the_picture_is_what_the_record_makes(self):
        made = picture.picture(picture.RECORD.read_text(encoding="utf-8"))
        self.assertEqual(picture.PICTURE.read_text(encoding="utf-8"), made,
                         "run python3 docs/site/terminal_picture.py")

    def test_it_is_a_picture_of_the_output(self):
        made = picture.picture(RECORD)
        for part in (">$ bin/x --tokens 5<", ">one &lt;word&gt;<", ">2 cores, 2026-01-02<", ">a<"):
            self.assertIn(part, made)
        self.assertEqual(made.count("h0"), 9)  # one dot, and eight

    def test_what_is_left_out_is_marked(self):
        lines = picture.shown_lines(records.parse_record(RECORD).output)
        self.assertEqual(lines, ["First Citizen:", "one <word>", "⋮", "", "Time per token", "\u2801\u28ff a"])

    def test_a_dot_is_where_its_bit_says(self):
        self.assertEqual(list(picture.dots("\u2880", 0, 0)), ["M22 31.75h0"])  # the last: right, bottom


if __name__ == "__main__":
    unittest.main()
