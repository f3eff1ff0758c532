"""quiz.py: what it asks, says and returns, on a small course and on the real one."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "chapters" / "course" / "quiz.py"
sys.path.insert(0, str(PROGRAM.parent))

import questions  # noqa: E402

QUIZ = "chapters/03_small/quiz.toml"


def option(letter, correct, number):
    return f'[[question.option]]\ntext = "{letter} of {number}"\ncorrect = {str(correct).lower()}\n' \
           f'why = "because {letter} of {number}."\n'


def question(number, right, word="quiz", head=""):
    return f'[[question]]\n{head}text = "{word} question {number}"\n' + \
        "".join(option(letter, letter == right, number) for letter in "pqr")


def quiz(rights="pqrpq"):
    return "\n".join(question(i, right) for i, right in enumerate(rights, 1))


def final(rights="pqr" * 7 + "p"):
    return "\n".join(question(i, right, "test", "chapter = 3\n") for i, right in enumerate(rights, 1))


class Course(unittest.TestCase):
    """A course of one chapter; p, q and r are its options a, b and c."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.write(QUIZ, quiz())
        self.write(questions.TEST, final())

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def run_quiz(self, *args, stdin="", root=None):
        return subprocess.run([sys.executable, PROGRAM, *args, "--root", root or self.root],
                              input=stdin, capture_output=True, text=True, timeout=60)

    def answers(self, letters):
        return str(self.write("answers.txt", "\n".join(letters) + "\n"))


class Asking(Course):
    def test_right_answers_are_praised_with_their_reason(self):
        done = self.run_quiz("3", stdin="a\nb\nc\na\nb\n")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("  Right. because p of 1.", done.stdout)
        self.assertNotIn("Wrong", done.stdout)
        self.assertTrue(done.stdout.endswith("\n5 of 5 right\n"))

    def test_a_wrong_answer_gets_its_own_reason_and_the_right_one(self):
        done = self.run_quiz("03", "--answers", self.answers("cbcab"))
        self.assertEqual(done.returncode, 0)
        self.assertIn("  Wrong. because r of 1.\n  Right is a: because p of 1.\n", done.stdout)
        self.assertEqual(done.stdout.count("Wrong."), 1)
        self.assertTrue(done.stdout.endswith("\n4 of 5 right\n"))

    def test_the_reason_comes_before_the_next_question(self):
        out = self.run_quiz("3", "--answers", self.answers("abcab")).stdout
        self.assertLess(out.index("because p of 1"), out.index("2 of 5  quiz question 2"))

    def test_what_is_no_option_is_asked_again(self):
        done = self.run_quiz("3", stdin="d\n\nab\nA \nb\nc\na\nb\n")
        self.assertEqual(done.stdout.count("type one letter of a, b, c"), 3)
        self.assertIn("5 of 5 right", done.stdout)

    def test_bytes_that_are_no_text_are_asked_again(self):
        done = subprocess.run([sys.executable, PROGRAM, "3", "--root", self.root],
                              input=b"\xff\xe2\na\n", capture_output=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (2, b""))
        self.assertIn(b"ended after 1 of 5", done.stdout)

    def test_the_end_of_input_ends_it(self):
        for args, stdin in ((("3",), "a\nb\n"), (("3", "--answers", self.answers("ab")), "")):
            done = self.run_quiz(*args, stdin=stdin)
            self.assertEqual((done.returncode, done.stderr), (2, ""))
            self.assertTrue(done.stdout.endswith("ended after 2 of 5 questions\n"))

    def test_ctrl_c_ends_it(self):
        process = subprocess.Popen(
            [sys.executable, PROGRAM, "3", "--root", self.root], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
        shown = b""
        while b"answer (a to c)" not in shown:
            shown += os.read(process.stdout.fileno(), 4096) or self.fail(shown)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        self.assertEqual((process.returncode, err), (2, b""))
        self.assertIn(b"ended after 0 of 5 questions", out)

    def test_the_same_seed_gives_the_same_order(self):
        def shown(*args):
            return self.run_quiz("3", *args, "--answers", self.answers("aaaaa")).stdout

        self.assertEqual(shown("--seed", "7"), shown("--seed", "7"))
        self.assertGreater(len({shown("--seed", str(seed)) for seed in range(8)}), 4)
        self.assertIn("  a  p of 1\n  b  q of 1\n  c  r of 1\n", shown())

    def test_a_shuffled_option_keeps_its_reason(self):
        for seed in range(4):
            out = self.run_quiz("3", "--seed", str(seed), "--answers", self.answers("aaaaa")).stdout
            for number in range(1, 6):
                part = out.split(f"quiz question {number}\n")[1].split("\n\n")[0]
                letter = part.split("  a  ")[1][0]
                right = letter == "pqrpq"[number - 1]
                self.assertIn(f"{'Right' if right else 'Wrong'}. because {letter} of {number}", part)

    def test_bad_command_lines_are_one_line(self):
        for args, message in (
                (("4",), "'4' has no questions; there are those of 3 and of test"),
                (("x",), "'x' has no questions"),
                (("3", "--answers", str(self.root / "none")), "none: No such file or directory"),
                (("3", "--answers", self.answers("abcaba")), "6 answers to 5 questions")):
            done = self.run_quiz(*args)
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1))
            self.assertIn(message, done.stderr)
        for letters, message in (("abx", "answer 3 is not a letter from a to d"),
                                 ("abd", "there is no option d, only a, b, c")):
            done = self.run_quiz("3", "--answers", self.answers(letters))
            self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1))
            self.assertIn(message, done.stderr)


class Grading(Course):
    def grade(self, num_right):
        letters = [("abc" * 8)[i] if i < num_right else "bca"[i % 3] for i in range(22)]
        return self.run_quiz("test", "--answers", self.answers(letters))

    def test_sixty_percent_pass(self):
        for num_right, status, line in ((22, 0, "22 of 22 right, 100.0 %: passed (60 % passes)"),
                                        (14, 0, "14 of 22 right, 63.6 %: passed (60 % passes)"),
                                        (13, 1, "13 of 22 right, 59.1 %: not passed (60 % passes)"),
                                        (0, 1, "0 of 22 right, 0.0 %: not passed (60 % passes)")):
            done = self.grade(num_right)
            self.assertEqual((done.returncode, done.stderr), (status, ""))
            self.assertEqual(done.stdout.count(line), 2)

    def test_nothing_is_explained_before_the_last_answer(self):
        out = self.grade(5).stdout
        asked, explained = out.split("5 of 22 right", 1)
        self.assertNotIn("because", asked)
        self.assertNotIn("right", asked)
        for number in range(1, 23):
            for letter in "pqr":
                self.assertIn(f"because {letter} of {number}.", explained)
        self.assertEqual(explained.count("(right, your answer)"), 5)
        self.assertEqual(explained.count("(wrong, your answer)"), 17)
        self.assertEqual(explained.count("(right)"), 17)

    def test_an_unfinished_test_has_no_grade(self):
        done = self.run_quiz("test", stdin="a\nb\n")
        self.assertEqual(done.returncode, 2)
        self.assertTrue(done.stdout.endswith("ended after 2 of 22 questions\n"))
        self.assertNotIn("because", done.stdout)
        self.assertNotIn("%", done.stdout)


class Files(Course):
    def test_a_bad_file_is_one_line_with_file_and_question(self):
        good = quiz()
        for text, message in (
                (good + "[[question", "quiz.toml: Expected"),
                ("", "quiz.toml: 'question' is missing"),
                ("question = []", "'question' is no list, or an empty one"),
                ("question = [1]", "question 1: is not a table"),
                ("name = 1\n" + good, "quiz.toml: unknown key 'name'"),
                (good.replace('text = "quiz question 2"', ""), "question 2: 'text' is missing"),
                (good.replace('"quiz question 2"', '" "'), "question 2: 'text' is not a text"),
                (good.replace('"p of 3"', "3"), "question 3, option 1: 'text' is not a text"),
                (good.replace('"because q of 3."', '""'), "question 3, option 2: 'why' is not a text"),
                (good.replace('why = "because q of 3."\n', ""), "option 2: 'why' is missing"),
                (good.replace("because q of 3", "because p of 3"), "two options have the same 'why'"),
                (good.replace('"q of 3"', '"p of 3"'), "question 3: two options have the same 'text'"),
                (good.replace("true", "false", 1), "question 1: 0 options are right"),
                (good.replace("false", "true", 1), "question 1: 2 options are right"),
                (good.replace("true", '"yes"', 1), "question 1, option 1: 'correct' is neither"),
                (good.replace(option("r", False, 1), ""), "question 1: 2 options; 3 or 4"),
                (good + option("s", False, 5) + option("t", False, 5), "question 5: 5 options"),
                (good.replace("text", "hint = 1\ntext", 1), "question 1: unknown key 'hint'")):
            self.write(QUIZ, text)
            fault, = questions.faults(self.root)
            self.assertNotIn("\n", fault)
            self.assertIn(f"{QUIZ}: ", fault)
            self.assertIn(message, fault)
        done = self.run_quiz("3")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (2, "", f"quiz: {fault}\n"))
        self.check(fault)

    def test_a_file_that_is_no_text_is_one_line(self):
        (self.root / QUIZ).write_bytes(b"\xff\xfe")
        done = self.run_quiz("3")
        self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1))

    def check(self, *wanted):
        done = self.run_quiz("check")
        self.assertEqual(done.stdout.splitlines(), list(wanted))
        self.assertEqual((done.returncode, done.stderr), (1 if wanted else 0, ""))

    def test_good_files_have_no_faults(self):
        self.check()

    def test_too_few_questions(self):
        self.write(QUIZ, quiz("pqrp"))
        self.check(f"{QUIZ}: 4 questions; 5 are the least")
        self.write(QUIZ, quiz())
        self.write(questions.TEST, final("pqr" * 7))
        self.check(f"{questions.TEST}: 21 questions; 22 are wanted")
        (self.root / questions.TEST).unlink()
        self.check(f"{questions.TEST}: No such file or directory")

    def test_one_letter_too_often(self):
        self.write(QUIZ, quiz("qqrqp"))
        self.check(f"{QUIZ}: 3 of 5 right options are b")

    def test_right_options_that_stand_out_by_their_length(self):
        for number, right in enumerate("pqr", 1):
            text = (self.root / QUIZ).read_text()
            self.write(QUIZ, text.replace(f'"{right} of {number}"', f'"{right} of {number}, always"'))
        self.check(f"{QUIZ}: the right option is the longest in 3 of 5 questions")
        self.write(QUIZ, "".join(
            question(i, right).replace(f'"{right} of {i}"', f'"{right}{i}"')
            for i, right in enumerate("pqrpq", 1)))
        self.check(f"{QUIZ}: the right option is the shortest in 5 of 5 questions")

    def test_the_same_question_twice(self):
        self.write(QUIZ, quiz().replace("quiz question 4", "Quiz  question 2"))
        self.check(f"{QUIZ}: question 4: has the text of {QUIZ}: question 2")
        self.write(QUIZ, quiz())
        self.write(questions.TEST, final().replace("test question 9", "quiz question 1"))
        self.check(f"{questions.TEST}: question 9: has the text of {QUIZ}: question 1")

    def test_a_chapter_without_quiz(self):
        self.write(questions.TEST, final().replace("chapter = 3", "chapter = 4", 1))
        self.check(f"{questions.TEST}: question 1: chapter 4 has no quiz.toml")
        self.write(questions.TEST, final().replace("chapter = 3", 'chapter = "3"', 1))
        self.check(f"{questions.TEST}: question 1: 'chapter' is not a number")


class RealCourse(Course):
    def right_letters(self, path):
        return [questions.LETTERS[question.right] for question in questions.load(path)]

    def test_all_right_answers_pass(self):
        letters = self.right_letters(ROOT / questions.TEST)
        done = self.run_quiz("test", "--answers", self.answers(letters), root=ROOT)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("22 of 22 right", done.stdout)

    def test_the_test_covers_chapters_0_to_5(self):
        chapters = {question.chapter for question in questions.load(ROOT / questions.TEST)}
        self.assertLessEqual(set(range(6)), chapters)

    def test_every_quiz_can_be_taken(self):
        for chapter, path in questions.quizzes().items():
            letters = self.right_letters(path)
            done = self.run_quiz(str(chapter), "--answers", self.answers(letters), root=ROOT)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn(f"\n{len(letters)} of {len(letters)} right\n", done.stdout)

    def test_chapter_2_begins_with_what_the_cache_stores(self):
        first = questions.load(questions.quizzes()[2])[0]
        self.assertEqual(first.text, "What does the KV cache store between steps?")


if __name__ == "__main__":
    unittest.main()
