#!/usr/bin/env python3
"""The coursework: starters, grading, and the tests of the tests. `./kv` calls it."""

import argparse
import pathlib
import sys

import grade
import manifest
import report
import sandbox
import starters
import wrong


def _starters(args):
    if not args.check:
        for name in starters.write_all():
            print(f"wrote {name}")
        return 0
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
        header = kernel = ""
        if exercise.kind == "kernel":
            kernel = manifest.ROOT / exercise.kernel
            if exercise.kernel != exercise.source:
                header = exercise.source.removeprefix("kernels/")
        common = f'"{kernel}" "{header}" "{exercise.define}"'
        _write(out / "answer" / f"{exercise.id}{suffix}", starters.text_of(exercise, True))
        _write(out / "starter" / f"{exercise.id}{suffix}", starters.text_of(exercise, False))
        lines.append(f"kv_exercise({exercise.id} {exercise.kind} {exercise.file} {common} {suffix})")
        for answer in wrong.answers(exercise):
            _write(out / "wrong" / f"{exercise.id}_{answer.name}{suffix}", answer.text)
            lines.append(f"kv_wrong_answer({exercise.id} {exercise.kind} {common} {answer.name} "
                         f"{suffix})")
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
    outcome = sandbox.run(args.program, [c.name for c in exercise.criteria],
                          seed=grade.environment_seed())
    result = grade.judge(exercise, outcome)
    print(report.show([result], 0))
    if args.what == "answer":
        return 0 if result.state == "pass" else 1
    if args.what == "starter":
        return 0 if result.points == 0 and result.state == "not done" else 1
    answer = next(a for a in wrong.answers(exercise) if a.name == args.name)
    survived = [name for name in answer.loses if result.earned[name]]
    for name in survived:
        print(f"the wrong answer {answer.name} still earns '{name}'")
    return 1 if survived else 0


def _grade(args):
    results = [grade.grade(e, args.build, args.seed) for e in grade.chosen(args.which)]
    print(report.show(results, args.hints))
    folder = pathlib.Path(args.build) / "grade"
    _write(folder / "results.json", report.gradescope(results))
    _write(folder / "results.xml", report.junit(results))
    print(f"written: {folder / 'results.json'}, {folder / 'results.xml'}")
    return grade.status(results)


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
    verbs = parser.add_subparsers(dest="verb", required=True)
    verb = verbs.add_parser("starters", help="write the files that students fill in")
    verb.add_argument("--check", action="store_true", help="only say which are not up to date")
    verb.set_defaults(run=_starters)
    verb = verbs.add_parser("grade", help="build, run and grade the student's files")
    verb.add_argument("which", nargs="?", default="")
    verb.add_argument("--build", default="build/default")
    verb.add_argument("--seed", type=int, default=grade.environment_seed())
    verb.add_argument("--hints", type=int, choices=(0, 1, 2, 3), default=1)
    verb.set_defaults(run=_grade)
    verb = verbs.add_parser("cmake")
    verb.add_argument("out")
    verb.set_defaults(run=_cmake)
    verb = verbs.add_parser("check")
    verb.add_argument("what", choices=("answer", "starter", "wrong"))
    verb.add_argument("exercise")
    verb.add_argument("program")
    verb.add_argument("name", nargs="?")
    verb.set_defaults(run=_check)
    verb = verbs.add_parser("audit", help="is there a wrong answer for every criterion?")
    verb.set_defaults(run=_audit)
    args = parser.parse_args()
    try:
        return args.run(args)
    except manifest.CourseError as error:
        print(f"course: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
