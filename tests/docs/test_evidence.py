"""Pages, claims and records with one fault each, all of which must be found."""

import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "docs/site")]
import check_evidence  # noqa: E402
import evidence  # noqa: E402
import fresh_runs  # noqa: E402
import page_numbers  # noqa: E402
import records  # noqa: E402

EVIDENCE = """
[[command]]
name = "waste"
run = "build/default/bin/waste --all"
[[command]]
name = "timed"
run = '''
build/default/bin/one "a b"
build/default/bin/two
'''
fastest_of = 3
[[claim]]
id = "few"
chapter = "05_paged"
text = "Little is wasted."
command = "waste"
shows = ['blocks of 16 .* 2\\.9 %', 'in all 10,240$']
[[exempt]]
page = "page"
numbers = ["1,234"]
why = "a year"
"""
RECORD = """command: build/default/bin/waste --all
date: 2026-11-30
machine: 2 cores of Some CPU, avx2
compiler: c 1, -O3

  policy          used  wasted   held
  ────────────  ──────  ──────  ─────
  max length    20.6 %  79.4 %    16
  blocks of 16  97.1 %   2.9 %  1,024
  in all 10,240

pool: [0 1 2 3], 37 free

TTFT                    1.96 ms
"""
PAGE = """# Page

    build/default/bin/waste --all    # takes a second

Of the memory 2.9 % is lost, 10,240 bytes in 2 parts and 1,024 more; see chapter 27, Kwon et al. 2023,
$`99 + 98`$ and `option 97`, in 16 bit; 1,234 of them.

| policy | used | wasted |
|---|---:|---:|
| max length | 20.6 % | 79.4 % |
| blocks of 16 | 97.1 % | 2.9 % |

| who | table | free |
|---|---|---:|
| A | `0 1 2 3` | 37 |
"""


def parsed(output_of=lambda text: text):
    return records.parse(EVIDENCE), lambda command: records.parse_record(output_of(RECORD))


def faults(page, record=lambda text: text):
    found, record_of = parsed(record)
    return list(check_evidence.page_faults("page", page, found, record_of))


class Pages(unittest.TestCase):
    def test_a_good_page_has_no_faults(self):
        self.assertEqual(faults(PAGE), [])

    def test_each_wrong_number_is_found(self):
        for old, new, words in [
            ("2.9 % is lost", "2.8 % is lost", "2.8 %"),
            ("2.9 % is lost", "2.9 GB is lost", "2.9 GB"),  # the unit counts
            ("10,240 bytes", "10,241 bytes", "10,241"),
            ("2 parts", "13 parts", "13"),
            ("1,024 more", "1,204 more", "1,204"),
            ("| 97.1 %", "| 97.2 %", "blocks of 16 | 97.2"),
            ("| 20.6 % | 79.4 %", "| 79.4 % | 20.6 %", "max length | 79.4"),  # both are in the record
            ("| 20.6 % | 79.4 %", "| 20.6 % | 2.9 %", "max length | 20.6 % | 2.9"),
            ("`0 1 2 3`", "`0 1 2 4`", "0 1 2 4"),
            ("| 37 |", "| 38 |", "38"),
            ("| 37 |", "| 1,024 |", "A | `0 1 2 3` | 1,024"),
            ("1,234 of them", "1,235 of them", "1,235"),
        ]:
            with self.subTest(new):
                self.assertIn(old, PAGE)
                found = faults(PAGE.replace(old, new))
                self.assertTrue(any(words in fault for fault in found), found)

    def test_numbers_need_the_command(self):
        found = faults(PAGE.replace("waste --all", "waste --some"))
        self.assertTrue(any("79.4" in fault for fault in found), found)

    def test_numbers_of_code_equations_and_names_are_free(self):
        self.assertEqual(list(page_numbers.faults("Chapter 99, `77`, $`55`$, step 44 and 45, fp64,"
                                                  " 32 bits, [x](y_66)\n\n    88\n", [])), [])

    def test_an_exempt_number_must_be_needed(self):
        found = faults(PAGE.replace("; 1,234 of them", ""))
        self.assertEqual(found, ["page: 1,234 is exempt without need"])
        found = faults(PAGE, lambda text: text + "1,234\n")
        self.assertEqual(found, ["page: 1,234 is exempt without need"])

    def test_times_name_machine_and_date(self):
        page = PAGE + '\n`build/default/bin/one "a b"` and `build/default/bin/two`'
        self.assertEqual(len(faults(page)), 2)
        self.assertEqual(faults(page + "\non 2 cores of Some\nCPU, 2026-11-30"), [])
        self.assertIn("2026-11-29", "".join(faults(page + "\non 2 cores of Some CPU, 2026-11-29")))


class Commands(unittest.TestCase):
    def test_all_lines_of_a_command_must_be_named(self):
        found = parsed()[0]
        one = '    build/default/bin/one  "a b"\n'
        self.assertEqual(records.named_by(one, found), [])
        both = one + "\n`build/default/bin/two`\n"
        self.assertEqual([command.name for command in records.named_by(both, found)], ["timed"])

    def test_long_lines_may_be_broken(self):
        text = "    build/default/bin/a \\\n      --b\n\nsay `build/default/bin/c\n--d` too"
        self.assertEqual(records.commands_in(text), {"build/default/bin/a --b", "build/default/bin/c --d"})


class Claims(unittest.TestCase):
    def test_a_wrong_claim_is_found(self):
        found, record_of = parsed()
        self.assertEqual(list(check_evidence.record_faults(found, record_of)), [])
        found, record_of = parsed(lambda text: text.replace("2.9 %", "3.9 %"))
        self.assertEqual(len(list(check_evidence.record_faults(found, record_of))), 1)
        for words, right in [("20 % are", True), ("21 % of", True), ("20.6 % of", True), ("20.7 % of", False),
                             ("21 GB of", False), ("80 % of", True), ("70 % of", False), ("10,240 of", True),
                             ("10,000 of", True), ("10,300 of", False), ("36 of", False)]:
            with self.subTest(words):
                self.assertEqual(list(page_numbers.claim_faults(words, RECORD.partition("\n\n")[2])),
                                 [] if right else [words.split()[0]])
        with self.assertRaisesRegex(records.RecordError, "claim few: no command is named waist"):
            records.parse(EVIDENCE.replace('command = "waste"', 'command = "waist"'))

    def test_lines_are_shown_with_the_heading_of_their_table(self):
        output = records.parse_record(RECORD).output
        self.assertEqual(evidence.shown_lines(output, ["2.9 %", "^TTFT"]).split("\n"), [
            "  policy          used  wasted   held", "  ────────────  ──────  ──────  ─────",
            "  blocks of 16  97.1 %   2.9 %  1,024", "", "TTFT                    1.96 ms"])
        self.assertEqual(evidence.shown_lines(output, ["in all"]), "  in all 10,240")


def difference(old, new):
    return fresh_runs.first_difference(fresh_runs.masked(old), fresh_runs.masked(new))


class FreshRuns(unittest.TestCase):
    TABLE = ("  position  rows     ms  sectors/load  written  ms in all\n"
             "  ────────  ────  ─────  ────────────  ───────  ─────────\n"
             "  5            5   1.23   7.54 > 7.33   10,240      247.0\n"
             "agreement  largest logit difference 5.7e-06 (bound 8.5e-05), 64 of 64 tokens equal\n"
             "device                  emulator, 2 threads: tiled\n"
             "100 ┤   ⣀⣀\nTTFT                    1.96 ms\n")

    def test_what_depends_on_the_machine_may_differ(self):
        other = self.TABLE
        for old, new in [(" 1.23", "99.23"), ("7.54 > 7.33", "3.42"), ("    247.0", "  9,000.1"),
                         ("5.7e-06", "0"), ("emulator, 2 threads", "NVIDIA H200"),
                         ("100 ┤   ⣀⣀", "1,000 ┤ ⡔"), ("1.96 ms", "12.00 ms")]:
            self.assertIn(old, other)
            other = other.replace(old, new.rjust(len(old)))
        self.assertIsNone(difference(self.TABLE, other))

    def test_a_stale_record_is_found(self):
        for old, new in [("  5            5", "  5            6"), ("10,240", "10,241"),
                         ("bound 8.5e-05", "bound 8.6e-05"), ("64 of 64", "63 of 64"), ("tiled", "online"),
                         ("rows", "lines"), ("TTFT", "TPOT"), ("agreement", "\nagreement")]:
            with self.subTest(new):
                self.assertIn(old, self.TABLE)
                self.assertIsNotNone(difference(self.TABLE, self.TABLE.replace(old, new)))
        self.assertIn("(nothing)", difference("same", "same\nmore"))

    def test_plots(self):
        svg = '<svg>\n<desc>when</desc>\n<text x="1">ms</text>\n<text x="1">10</text>\n</svg>'
        masked = fresh_runs.masked_plot
        self.assertEqual(masked(svg, "measured"), masked(svg.replace(">10<", ">100<"), "measured"))
        self.assertNotEqual(masked(svg, "measured"), masked(svg.replace(">ms<", ">s<"), "measured"))
        self.assertNotEqual(masked(svg, "counted"), masked(svg.replace('"1"', '"2"'), "counted"))
        self.assertEqual(masked(svg, "counted"), masked(svg.replace("when", "now"), "counted"))


if __name__ == "__main__":
    unittest.main()
