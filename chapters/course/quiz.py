#!/usr/bin/env python3
"""Questions on the chapters: `2` asks those of chapter 2, `test` the test at the course's end."""

import argparse
import pathlib
import random
import signal
import sys
import textwrap

import questions
from manifest import ROOT, CourseError

PASS_PERCENT = 60  # of the test
_WIDTH = 96


def _wrapped(text, first, rest):
    return textwrap.fill(text, _WIDTH, initial_indent=first, subsequent_indent=rest,
                         break_on_hyphens=False)


def _typed(letters):
    """One answer from the terminal or a pipe."""
    if sys.stdin is None:
        raise EOFError
    while True:
        line = input(f"answer ({letters[0]} to {letters[-1]}): ")
        if not sys.stdin.isatty():
            print(line)
        answer = line.strip().lower()
        if len(answer) == 1 and answer in letters:
            return answer
        print(f"  type one letter of {', '.join(letters)}")


def _scripted(path, num_questions):
    """The same from a file with one letter a line."""
    try:
        lines = pathlib.Path(path).read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise CourseError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise CourseError(f"{path}: is not text") from error
    answers = [line.strip().lower() for line in lines if line.strip()]
    if len(answers) > num_questions:
        raise CourseError(f"{path}: {len(answers)} answers to {num_questions} questions")
    for number, answer in enumerate(answers, 1):
        if len(answer) != 1 or answer not in questions.LETTERS:
            raise CourseError(f"{path}: answer {number} is not a letter from a to d")
    waiting = iter(answers)

    def answer(letters):
        letter = next(waiting, None)
        if letter is None:
            raise EOFError
        if letter not in letters:
            raise CourseError(f"{path}: there is no option {letter}, only {', '.join(letters)}")
        print(f"answer ({letters[0]} to {letters[-1]}): {letter}")
        return letter

    return answer


def _head(question, number, total):
    return "\n" + _wrapped(f"{number} of {total}  {question.text}", "", "  ")


def ask(question, number, total, answer):
    """Shows a question. The index of the option that was chosen."""
    print(_head(question, number, total))
    letters = questions.LETTERS[:len(question.options)]
    for letter, option in zip(letters, question.options):
        print(_wrapped(option.text, f"  {letter}  ", "     "))
    return letters.index(answer(letters))


def verdict(question, chosen):
    """Right or wrong, with the reason of the chosen option and, if wrong, of the right one."""
    option = question.options[chosen]
    if option.correct:
        return _wrapped(f"Right. {option.why}", "  ", "  ")
    right = question.options[question.right]
    letter = questions.LETTERS[question.right]
    return _wrapped(f"Wrong. {option.why}", "  ", "  ") + "\n" + \
        _wrapped(f"Right is {letter}: {right.why}", "  ", "  ")


def _explained(question, number, total, chosen):
    """Every option of a question with its reason."""
    lines = [_head(question, number, total)]
    for i, (letter, option) in enumerate(zip(questions.LETTERS, question.options)):
        mark = "right" if option.correct else "wrong"
        mark += ", your answer" if i == chosen else ""
        lines.append(_wrapped(f"{option.text} ({mark})", f"  {letter}  ", "     "))
        lines.append(_wrapped(option.why, "       ", "       "))
    return "\n".join(lines)


def _run(asked, answer, is_test):
    """Asks them all. The exit status."""
    total, chosen = len(asked), []
    try:
        for number, question in enumerate(asked, 1):
            chosen.append(ask(question, number, total, answer))
            if not is_test:
                print(verdict(question, chosen[-1]))
    except (EOFError, KeyboardInterrupt):
        print(f"\nended after {len(chosen)} of {total} questions")
        return 2
    score = sum(question.right == i for question, i in zip(asked, chosen))
    if not is_test:
        print(f"\n{score} of {total} right")
        return 0
    passed = 100 * score >= PASS_PERCENT * total
    grade = f"{score} of {total} right, {100 * score / total:.1f} %: " \
            f"{'passed' if passed else 'not passed'} ({PASS_PERCENT} % passes)"
    print(f"\n{grade}")
    for number, (question, i) in enumerate(zip(asked, chosen), 1):
        print(_explained(question, number, total, i))
    print(f"\n{grade}")
    return 0 if passed else 1


def _file(what, root):
    """The file of a chapter's number or of the test."""
    if what == "test":
        return root / questions.TEST
    known = questions.quizzes(root)
    if not what.isdecimal() or int(what) not in known:
        raise CourseError(f"'{what}' has no questions; there are those of "
                          f"{', '.join(map(str, known))} and of test")
    return known[int(what)]


def _check(root):
    found = questions.faults(root)
    for fault in found:
        print(fault)
    return 1 if found else 0


def main():
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` ends it like any other program
    if sys.stdin is not None:
        sys.stdin.reconfigure(errors="replace")  # what is no text is no letter
    parser = argparse.ArgumentParser(prog="./kv quiz", description=__doc__)
    parser.add_argument("what", help="a chapter's number, `test`, or `check` for the files")
    parser.add_argument("--seed", type=int, help="shuffles the options, the same way each time")
    parser.add_argument("--answers", metavar="FILE", help="one letter a line, not the keyboard")
    parser.add_argument("--root", type=pathlib.Path, default=ROOT, help=argparse.SUPPRESS)
    args = parser.parse_args()
    try:
        if args.what == "check":
            return _check(args.root)
        asked = questions.load(_file(args.what, args.root), args.root)
        if args.seed is not None:
            shuffle = random.Random(args.seed)
            asked = [question.shuffled(shuffle) for question in asked]
        answer = _scripted(args.answers, len(asked)) if args.answers else _typed
        return _run(asked, answer, args.what == "test")
    except CourseError as error:
        print(f"quiz: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
