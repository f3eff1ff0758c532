"""A student's repository: what is in it, and above all what is not."""

import dataclasses
import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "chapters/course"))

import manifest  # noqa: E402
import new_repo  # noqa: E402
import regions  # noqa: E402
import starters  # noqa: E402


def texts(folder):
    """Every text file of a repository: its name and what is in it."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and ".git" not in path.parts:
            try:
                yield str(path.relative_to(folder)), path.read_text()
            except UnicodeDecodeError:
                pass  # a model, an object


def telling_lines(exercise):
    """Lines of a solution that stand nowhere else in the course: who has one has a solution."""
    text = (ROOT / exercise.source).read_text()
    inside = [line.strip() for name in exercise.regions
              for line in regions.region(text, name, exercise.source)]
    gone = [line.strip() for line in starters.text_of(exercise, False).split("\n")]
    if exercise.kind == "function":  # the same signatures, marked
        gone += [line.strip() for line in starters.gap(exercise).split("\n")]
    return {line for line in inside if len(line) > 24 and line not in gone
            and not line.startswith("//")}


class NewRepo(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name) / "student"
        cls.chapters = tuple(name[:2] for name in manifest.chapters())
        first = manifest.exercises()[0]
        cls.points = {first.id: {first.criteria[0].name: 7}}
        cls.plan = new_repo.Plan(cls.folder, cls.chapters, 7, cls.points, 'Caches "2027"', "1 May")
        with unittest.mock.patch.object(new_repo, "_make_stand_ins"):
            cls.mine = new_repo.write(cls.plan)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def test_no_solution_is_in_it(self):
        elsewhere = ""
        for name in new_repo._tracked():
            if name.endswith((".cpp", ".hpp", ".cu", ".cuh", ".md")) and "/exercise/" not in name:
                text = (ROOT / name).read_text()
                if name in {e.source for e in manifest.exercises()}:
                    text = new_repo._without_solutions(name, text)
                elsewhere += text
        checked = 0
        for exercise in manifest.exercises():
            lines = {line for line in telling_lines(exercise) if line not in elsewhere}
            checked += len(lines)
            for name, text in texts(self.folder):
                found = [line for line in lines if line in text]
                self.assertFalse(found, f"{name} has lines of {exercise.id}")
        self.assertGreater(checked, 2 * len(manifest.exercises()))

    def test_no_wrong_answer_and_no_tool_of_the_teacher_is_in_it(self):
        names = [name for name, _ in texts(self.folder)]
        self.assertFalse([name for name in names if "mutants" in name or "instructors" in name])
        for name in ("course.py", "new_repo.py", "starters.py", "regions.py", "wrong.py"):
            self.assertFalse((self.folder / "chapters/course" / name).exists(), name)
        for name, text in texts(self.folder):
            self.assertNotIn("[[wrong]]", text, name)

    def test_nothing_stands_in_for_the_exercise_that_is_graded(self):
        for exercise in self.mine:
            path = self.folder / f"tests/course/gap/{exercise.id}.cpp"
            self.assertEqual(path.exists(), exercise.kind == "function")
            if path.exists():
                code = path.read_text().split("namespace kv {")[1]
                self.assertGreater(code.count("KV_EXERCISE "), 0)
                self.assertEqual(code.count("KV_EXERCISE "), code.count(regions.TODO))

    def test_starters_are_those_of_the_course_with_the_new_points(self):
        for exercise in manifest.exercises(self.folder):
            text = (self.folder / exercise.file).read_text()
            self.assertEqual(text, starters.with_points(
                starters.text_of(next(e for e in self.mine if e.id == exercise.id), False), exercise))
        first = manifest.exercises(self.folder)[0]
        self.assertEqual(first.criteria[0].points, 7)
        self.assertIn(f"//   7  {first.criteria[0].name}", (self.folder / first.file).read_text())

    def test_the_class_has_its_seed_title_and_date(self):
        text = (self.folder / "course.toml").read_text()
        self.assertIn("seed = 7", text)
        self.assertIn('title = "Caches \\"2027\\""', text)
        readme = (self.folder / "README.md").read_text()
        self.assertIn("1 May", readme)
        self.assertNotIn("@", readme.replace("actions/checkout@v4", ""))

    def test_it_is_a_repository_with_everything_committed(self):
        status = subprocess.run(["git", "status", "--short"], cwd=self.folder, check=True,
                                capture_output=True, text=True)
        self.assertEqual(status.stdout, "")

    def test_what_a_teacher_gets_wrong_is_said_in_a_line(self):
        for bad in ("", "x", "0-1", "9", "1-99"):
            with self.assertRaises(manifest.CourseError):
                new_repo.chapter_range(bad)
        with self.assertRaises(manifest.CourseError):
            new_repo.write(self.plan)  # the folder is not empty
        good = dataclasses.replace(self.plan, folder=self.folder / "new")
        new_repo._check(good)
        for bad in ({"folder": self.folder / "README.md"}, {"folder": ROOT / "class"}, {"title": " "},
                    {"title": "two\nlines"}, {"due": "a\tb"}, {"seed": -1}, {"seed": 1 << 63}):
            with self.assertRaises(manifest.CourseError):
                new_repo._check(dataclasses.replace(good, **bad))
        with tempfile.TemporaryDirectory() as folder:
            for text in ('[no_such]\n"x" = 1', f'[{self.mine[0].id}]\n"no such" = 1',
                         f'[{self.mine[0].id}]\n"{self.mine[0].criteria[0].name}" = 0', "]",
                         f'[{self.mine[0].id}]\n"{self.mine[0].criteria[0].name}" = 1001',
                         f'"{self.mine[0].id}" = 3'):
                path = pathlib.Path(folder) / "p.toml"
                path.write_text(text)
                with self.assertRaises(manifest.CourseError):
                    new_repo.point_table(path)

    def test_an_early_part_of_the_course_has_no_later_chapter(self):
        with tempfile.TemporaryDirectory() as temporary:
            folder = pathlib.Path(temporary) / "part"
            plan = new_repo.Plan(folder, self.chapters[:1], 1, {}, "Part", "")
            with unittest.mock.patch.object(new_repo, "_make_stand_ins"):
                new_repo.write(plan)
            found = {path.name[:2] for path in folder.glob("chapters/[0-9][0-9]_*")}
            self.assertTrue(all(number <= self.chapters[0] for number in found), found)


if __name__ == "__main__":
    unittest.main()
