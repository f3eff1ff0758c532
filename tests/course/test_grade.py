"""The grader: what counts, what a program may do, what is written and handed in."""

import dataclasses
import json
import os
import pathlib
import sys
import tempfile
import unittest
import unittest.mock
import xml.etree.ElementTree as xml
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "chapters/course"))

import grade  # noqa: E402
import manifest  # noqa: E402
import report  # noqa: E402
import sandbox  # noqa: E402
import submit  # noqa: E402

EXERCISE = manifest.Exercise(
    "05_paged_cache", "fork", "a title", "function", "src/x.cpp", ("fork",), (), (), "", "src/x.cpp",
    "", "task", "", ("nudge", "idea", "formula"),
    (manifest.Criterion("one", 2), manifest.Criterion("two", 3)))
NAMES = ["one", "two"]


def case(name, passed=True, details=""):
    return {"case": name, "passed": passed, "assertions": 1, "details": details}


def run_script(body, **limits):
    """Runs a shell script as the program: $1 is the file of the results, its input the key."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "script"
        path.write_text(f"#!/bin/bash\nread key\n{body}\n")
        return sandbox.run(path, NAMES, sandbox.Limits(**limits))


def result_lines(*names, end=None, key="$key"):
    lines = [f'echo \'{json.dumps(case(name))}\' >&$1' for name in names]
    number = len(names) if end is None else end
    return "\n".join([*lines, f'echo "{{\\"end\\": {number}, \\"key\\": \\"{key}\\"}}" >&$1'])


class Sandbox(unittest.TestCase):
    def test_all_cases_and_the_key_make_it_complete(self):
        self.assertTrue(run_script(result_lines("one", "two")).complete)

    def test_whatever_is_missing_or_too_much_makes_it_incomplete(self):
        for body in (result_lines("one"), result_lines("one", "two", "three"),
                     result_lines("one", "one"), result_lines("one", "two", end=1),
                     result_lines("one", "two", key="guess"), "echo nonsense >&$1", "exit 0",
                     result_lines("one", "two").rsplit("\n", 1)[0]):
            outcome = run_script(body)
            self.assertFalse(outcome.complete, body)
            self.assertTrue(outcome.why, body)

    def test_results_of_another_kind_are_no_results(self):
        for line in ("5", "null", "[]", "{}", "9" * 9000, "[" * 100000,
                     json.dumps({**case("one"), "case": 5}), json.dumps({**case("one"), "more": 1}),
                     json.dumps({**case("one"), "passed": "yes"}), result_lines("one", "two")):
            body = result_lines("one", "two") + f"\ncat >&$1 <<'END'\n{line}\nEND"
            outcome = run_script(body)
            self.assertFalse(outcome.complete, line[:80])
            grade.judge(EXERCISE, outcome)

    def test_lines_end_where_json_says(self):
        body = f"echo '{json.dumps(case('one', False, 'a' + chr(0x2028)), ensure_ascii=False)}' >&$1\n"
        body += f"echo '{json.dumps(case('two'))}' >&$1\n" + 'echo "{\\"end\\": 2, \\"key\\": \\"$key\\"}" >&$1'
        self.assertTrue(run_script(body).complete)

    def test_every_signal_is_named(self):
        self.assertIn("SIGKILL", run_script("kill -KILL $$").why)
        self.assertIn("signal 40", run_script("kill -40 $$").why)

    def test_an_interrupted_grader_leaves_nothing(self):
        with unittest.mock.patch.object(sandbox, "_pump", side_effect=KeyboardInterrupt):
            with self.assertRaises(KeyboardInterrupt):
                run_script("sleep 61.5")
        self.assertEqual(sandbox.left_behind(), [])

    def test_limits_are_kept_and_named(self):
        self.assertIn("did not end within 1 s", run_script("sleep 60", seconds=1).why)
        self.assertIn("printed more than 1 MiB",
                      run_script("head -c 9000000 /dev/zero", output=1 << 20).why)

    def test_only_the_end_of_what_is_printed_is_kept(self):
        outcome = run_script("seq 1 20000; echo last")
        self.assertLess(len(outcome.output), 10000)
        self.assertTrue(outcome.output.endswith("last\n"))

    def test_nothing_is_left_running(self):
        run_script("setsid sleep 61.5 & setsid sleep 61.5 &\n" + result_lines("one", "two"))
        for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                self.assertNotIn(b"61.5", path.read_bytes())
            except OSError:
                pass


class Judge(unittest.TestCase):
    def judge(self, cases, complete=True, why="", output=""):
        return grade.judge(EXERCISE, sandbox.Outcome(cases, complete, why, output))

    def test_points_are_those_of_the_cases_that_passed(self):
        result = self.judge([case("one"), case("two", False, "expected 1, got 2")])
        self.assertEqual((result.state, result.points), ("fail", 2))
        self.assertEqual(self.judge([case("one"), case("two")]).state, "pass")

    def test_an_incomplete_run_earns_nothing(self):
        result = self.judge([case("one"), case("two")], False, "it was ended by SIGSEGV")
        self.assertEqual((result.state, result.points), ("fail", 0))
        self.assertIn("SIGSEGV", result.note)

    def test_a_starter_is_not_done(self):
        todo = f"unexpected exception: not done yet: {ROOT}/chapters/x.cpp:3"
        result = self.judge([case("one", False, todo), case("two", False, todo)])
        self.assertEqual((result.state, result.points), ("not done", 0))
        self.assertEqual(result.note, "not done yet: chapters/x.cpp:3")
        # Half done is not "not done".
        self.assertEqual(self.judge([case("one"), case("two", False, todo)]).points, 2)

    def test_a_missing_test_or_file_blocks(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            self.assertIn("tests/course/05_fork.cpp is missing",
                          grade.missing(EXERCISE, root / "build", root))
            (root / "tests/course").mkdir(parents=True)
            (root / EXERCISE.tests).touch()
            self.assertIn("exercise/fork.cpp is missing",
                          grade.missing(EXERCISE, root / "build", root))

    def test_only_a_plain_file_is_built(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name in (EXERCISE.tests, EXERCISE.file):
                (root / name).parent.mkdir(parents=True)
            (root / EXERCISE.tests).touch()
            path = root / EXERCISE.file
            for make in (lambda: os.mkfifo(path), lambda: path.symlink_to("/etc/passwd")):
                path.unlink(missing_ok=True)
                make()
                self.assertIn("is no plain file", grade.missing(EXERCISE, root / "build", root))

    def test_a_build_ends_in_time_and_its_words_need_not_be_text(self):
        with tempfile.TemporaryDirectory() as folder:
            tool, log = pathlib.Path(folder) / "cmake", pathlib.Path(folder) / "log"
            tool.write_text("#!/bin/bash\nprintf '\\xff error: x\\n'\nsleep 61.5 &\nsleep 61.5\n")
            tool.chmod(0o755)
            with unittest.mock.patch.dict(os.environ, PATH=f"{folder}:{os.environ['PATH']}"):
                built, words = grade._build("build", ["x"], log, 1)
        self.assertFalse(built)
        self.assertIn("it was not built within 1 s", words)
        self.assertIn("\ufffd error: x", words)

    def test_a_kernel_file_without_its_launcher_earns_nothing(self):
        kernel = dataclasses.replace(EXERCISE, kind="kernel", kernel="kernels/cache/copy.cu")
        member, other = "libattention_kernels_checked.a[copy.cu.cpp.o]:", "lib.a[more.cu.cpp.o]:"
        library = {(member, "launch_copy"), (other, "launch_more")}
        with tempfile.TemporaryDirectory() as folder:
            code = pathlib.Path(folder) / "tests/course/CMakeFiles/grade_05_fork_code_checked.dir"
            code.mkdir(parents=True)
            (code / "x.o").touch()
            for own, lacking in ((set(), ["launch_copy"]), ({("x.o:", "launch_copy")}, [])):
                with unittest.mock.patch.object(
                        grade, "_defined", lambda path, own=own: own if path.suffix == ".o" else library):
                    self.assertEqual(grade.not_defined(kernel, folder), lacking)

    def test_status_says_full_marks_less_or_not_gradable(self):
        full = self.judge([case("one"), case("two")])
        less = self.judge([case("one"), case("two", False)])
        blocked = grade._nothing(EXERCISE, "blocked", "why")
        self.assertEqual([grade.status(r) for r in ([full], [full, less], [less, blocked])],
                         [0, 1, 2])

    def test_words_choose_exercises(self):
        everything = grade.chosen("")
        self.assertEqual(grade.chosen("05_fork")[0].id, "05_fork")
        self.assertTrue(all(e.id.startswith("05_") for e in grade.chosen("05")))
        self.assertLess(len(grade.chosen("05")), len(everything) + 1)
        for word in ("5_fork", "99", "05_for", "fork", "05_fork "):
            with self.assertRaises(manifest.CourseError):
                grade.chosen(word)


class Written(unittest.TestCase):
    def setUp(self):
        outcome = sandbox.Outcome([case("one"), case("two", False, "a < b & \x01 \"c\"")], True, "", "")
        self.results = [grade.judge(EXERCISE, outcome)]

    def test_gradescope(self):
        written = json.loads(report.gradescope(self.results))
        self.assertEqual(written["score"], 2)
        self.assertEqual([t["max_score"] for t in written["tests"]], [2, 3])
        self.assertEqual([t["status"] for t in written["tests"]], ["passed", "failed"])

    def test_junit(self):
        cases = list(xml.fromstring(report.junit(self.results)).iter("testcase"))
        self.assertEqual([len(list(entry)) for entry in cases], [0, 1])
        self.assertIn('a < b &  "c"', cases[1][0].text)

    def test_no_text_of_a_student_breaks_them(self):
        strange = "\x1b[2J\0\ud800\ufffe]]>" + "x" * 9000 + "end"
        for outcome in (sandbox.Outcome([case("one"), case("two", False, strange)], True, "", ""),
                        sandbox.Outcome([], False, "why", strange)):
            results = [grade.judge(EXERCISE, outcome)]
            json.loads(report.gradescope(results).encode())
            xml.fromstring(report.junit(results).encode())
            for text in (report.gradescope(results), report.show_one(results[0])):
                self.assertNotIn("\x1b", text)
                self.assertLess(len(text), 20000)

    def test_the_terminal(self):
        self.assertEqual(report.total(self.results), "2 of 5 points")
        text = report.show_one(self.results[0], 2)
        for wanted in ("0 of 3  two", "hint 2: idea", EXERCISE.page,
                       "your code was run", "the reference stands in"):
            self.assertIn(wanted, text)
        self.assertNotIn("formula", text)
        self.assertNotIn("--own", text)

    def test_full_points_of_a_function_offer_to_run_it(self):
        outcome = sandbox.Outcome([case("one"), case("two")], True, "", "")
        for program, offered in (("02_kv_cache", True), ("", False)):
            result = grade.judge(dataclasses.replace(EXERCISE, program=program), outcome)
            self.assertEqual("./kv run --own 05_fork" in report.show_one(result), offered)


class Submit(unittest.TestCase):
    def test_only_the_students_files_and_always_the_same(self):
        with tempfile.TemporaryDirectory() as folder:
            first, names = submit.pack("05", pathlib.Path(folder) / "a")
            second, _ = submit.pack("05", pathlib.Path(folder) / "b")
            self.assertEqual(first.read_bytes(), second.read_bytes())
            self.assertEqual(zipfile.ZipFile(first).namelist(), names)
            self.assertTrue(all("/exercise/" in name for name in names))
            self.assertEqual(len(names), len(grade.chosen("05")))

    def test_what_is_no_students_file_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            path = root / EXERCISE.file
            path.parent.mkdir(parents=True)
            with unittest.mock.patch.object(grade, "chosen", lambda *_: [EXERCISE]):
                for make in (lambda: None, lambda: path.symlink_to("/etc/passwd"),
                             lambda: path.write_bytes(b"x" * (2 << 20))):
                    path.unlink(missing_ok=True)
                    make()
                    with self.assertRaises(manifest.CourseError):
                        submit.pack("05", root / "out", root)


if __name__ == "__main__":
    unittest.main()
