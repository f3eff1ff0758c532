#!/usr/bin/env python3
"""For who makes the course: starters, student repositories, the tests of the tests. `./kv course`
calls it. A student's repository has none of it."""

import argparse
import os
import pathlib
import sys

import course_file
import grade
import manifest
import new_repo
import report
import sandbox
import starters
import wrong


def _starters(args):
    if not args.check:
        changed, kept = starters.write_all(force=args.force)
        for name in changed:
            print(f"wrote {name}")
        for name in kept:
            print(f"kept {name}: it has changes that are not committed; --force writes it anew")
        return 1 if kept else 0
    bad = starters.drifted()
    for name in bad:
        print(f"{name} is not what the reference makes of it; run ./kv course starters")
    return 1 if bad else 0


def _write(path, text):
    """Only when it differs: the build goes by the time of a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def _cmake(args):
    """The files of the tests of the tests, and what there is to build, for CMake."""
    out = pathlib.Path(args.out)
    lines = []
    watched = [manifest.ROOT / "chapters" / c / "exercises.toml" for c in manifest.chapters()]
    for exercise in manifest.exercises():
        if not (manifest.ROOT / exercise.tests).exists():
            continue  # the grader says so
        suffix = pathlib.Path(exercise.file).suffix
        _write(out / "answer" / f"{exercise.id}{suffix}", starters.text_of(exercise, True))
        _write(out / "starter" / f"{exercise.id}{suffix}", starters.text_of(exercise, False))
        _write(out / "nothing" / f"{exercise.id}{suffix}", starters.does_nothing(exercise))
        if exercise.kind == "function":
            _write(out / "stand_in" / f"{exercise.id}.cpp", starters.stand_in(exercise))
            _write(out / "gap" / f"{exercise.id}.cpp", starters.gap(exercise))
        line = starters.cmake_line(exercise)
        lines.append(line)
        try:
            answers = wrong.answers(exercise)
        except manifest.CourseError as error:  # whoever edits the reference may still build
            lines.append(f"message(WARNING [==[{error}]==])")
            lines.append(f'add_test(NAME "mutants: course {exercise.id}: every wrong answer can be '
                         'made" COMMAND ${CMAKE_COMMAND} -E false)')
            answers = []
        for answer in answers:
            _write(out / "wrong" / f"{exercise.id}_{answer.name}{suffix}", answer.text)
            lines.append(line.replace("kv_exercise(", "kv_wrong_answer(")[:-1] + f" {answer.name})")
        watched += [manifest.ROOT / exercise.source,
                    manifest.ROOT / f"tests/mutants/course/{exercise.id}.toml"]
    watched += sorted(pathlib.Path(__file__).parent.glob("*.py"))
    for path in watched:
        if path.exists():
            lines.append(f'set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "{path}")')
    _write(out / "exercises.cmake", "\n".join(lines) + "\n")
    return 0


def _check(args):
    """One test of the tests: what a program that was built with a known answer earns."""
    exercise = grade.chosen(args.exercise)[0]
    limits = sandbox.Limits(seconds=10) if args.what == "hostile" else sandbox.Limits()
    outcome = sandbox.run(args.program, [c.name for c in exercise.criteria], limits,
                          course_file.seed())
    result = grade.judge(exercise, outcome)
    print(report.show_one(result, 0))
    if args.what == "answer":
        return 0 if result.state == "pass" else 1
    if args.what == "nothing":
        return 0 if result.points == 0 else 1
    if args.what == "hostile":
        left = sandbox.left_behind()
        print("\n".join(f"still running: {line}" for line in left))
        return 0 if result.points == 0 and not left else 1
    if args.what == "starter":
        return 0 if result.points == 0 and result.state == "not done" else 1
    answer = next(a for a in wrong.answers(exercise) if a.name == args.name)
    survived = [name for name in answer.loses if result.earned[name]]
    for name in survived:
        print(f"the wrong answer {answer.name} still earns '{name}'")
    return 1 if survived else 0


def _new(args):
    caller = pathlib.Path(os.environ.get("KV_CALLER", ".")).absolute()
    points = new_repo.point_table(caller / args.points) if args.points else {}
    plan = new_repo.Plan(caller / args.folder, new_repo.chapter_range(args.chapters), args.seed,
                         points, args.title, args.due)
    mine = new_repo.write(plan)
    points = sum(e.points for e in manifest.exercises(plan.folder))
    print(f"{args.folder}: {len(mine)} exercises, {points} points, seed {args.seed}")
    return 0


def _audit(_):
    """Every exercise has three wrong answers, and every criterion one that it is there for."""
    bad = 0
    for exercise in manifest.exercises():
        missing, few = wrong.uncaught(exercise)
        for name in missing:
            print(f"{exercise.id}: no wrong answer loses '{name}'")
        if few:
            print(f"{exercise.id}: fewer than three wrong answers")
        bad += few or bool(missing)
    return 1 if bad else 0


def main():
    parser = argparse.ArgumentParser(prog="./kv course", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="{starters,new,audit}")
    verb = verbs.add_parser("starters", help="write the files that students fill in")
    verb.add_argument("--check", action="store_true", help="only say which are not up to date")
    verb.add_argument("--force", action="store_true", help="also those with changes not committed")
    verb.set_defaults(run=_starters)
    verb = verbs.add_parser("new", help="write a student repository, without solutions")
    verb.add_argument("folder", metavar="DIR")
    verb.add_argument("--chapters", default="1-5", help="such as 1-3 or 1,4-5")
    verb.add_argument("--seed", type=int, default=1, help="of the numbers in the tests")
    verb.add_argument("--points", metavar="P.toml", help="points other than the course's")
    verb.add_argument("--title", default="The KV cache: exercises")
    verb.add_argument("--due", default="", help="a note for the first page, such as a date")
    verb.set_defaults(run=_new)
    verb = verbs.add_parser("cmake")
    verb.add_argument("out")
    verb.set_defaults(run=_cmake)
    verb = verbs.add_parser("check")
    verb.add_argument("what", choices=("answer", "starter", "nothing", "wrong", "hostile"))
    verb.add_argument("exercise")
    verb.add_argument("program")
    verb.add_argument("name", nargs="?")
    verb.set_defaults(run=_check)
    verb = verbs.add_parser("audit", help="is there a wrong answer for every criterion?")
    verb.set_defaults(run=_audit)
    args = parser.parse_args()
    try:
        return args.run(args)
    except (manifest.CourseError, OSError) as error:
        print(f"course: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
