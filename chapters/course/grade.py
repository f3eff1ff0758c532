"""Builds each exercise by itself, runs its tests, counts its points."""

import argparse
import dataclasses
import pathlib
import resource
import signal
import subprocess
import sys

import course_file
import manifest
import report
import sandbox


@dataclasses.dataclass
class Result:
    exercise: manifest.Exercise
    state: str  # pass, fail, not done, does not compile, blocked
    earned: dict  # criterion -> points
    details: dict  # criterion -> what was expected and got
    note: str = ""  # of the whole exercise: a compiler's words, what is missing, why it ended

    @property
    def points(self):
        return sum(self.earned.values())


def _nothing(exercise, state, note):
    return Result(exercise, state, {c.name: 0 for c in exercise.criteria}, {}, note)


def judge(exercise, outcome):
    """What a run is worth. No points at all unless every case was run."""
    details = {case["case"]: case["details"] for case in outcome.cases if not case["passed"]}
    todo = next((text for text in [*details.values(), outcome.output] if "not done yet: " in text),
                None)
    if todo is not None and not any(case["passed"] for case in outcome.cases):
        line = todo[todo.index("not done yet: "):].split("\n")[0]
        return _nothing(exercise, "not done", line.replace(str(manifest.ROOT) + "/", ""))
    if not outcome.complete:
        tail = "\n".join(outcome.output.strip().split("\n")[-12:])
        result = _nothing(exercise, "fail", f"{outcome.why}\n{tail}".strip())
        ended = {case["case"] for case in outcome.cases}
        result.details = {c.name: details.get(c.name, "" if c.name in ended else "not run to its end")
                          for c in exercise.criteria}
        return result
    passed = {case["case"] for case in outcome.cases if case["passed"]}
    earned = {c.name: c.points if c.name in passed else 0 for c in exercise.criteria}
    state = "pass" if all(earned.values()) else "fail"
    return Result(exercise, state, earned, details)


# A student's file: `#include "/dev/zero"` and `.space` take what they can get.
BUILD_SECONDS = 600
_BUILD_MEMORY = 4096 * sandbox.MEGABYTE  # of one process
_BUILD_FILE = 512 * sandbox.MEGABYTE


def _limit_build():
    """Runs in the new process before the build of a student's file."""
    for what, most in ((resource.RLIMIT_AS, _BUILD_MEMORY), (resource.RLIMIT_FSIZE, _BUILD_FILE)):
        resource.setrlimit(what, (most, most))


def _build(build, targets, log, seconds=None):
    """Whether it was built, and what the compiler said. With `seconds` it is limited."""
    sandbox.adopt_orphans()
    with log.open("wb") as out:  # no pipe: what is left of an ended build may hold it open
        try:
            done = subprocess.run(["cmake", "--build", build, "--target", *targets], check=False,
                                  stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                                  timeout=seconds, preexec_fn=_limit_build if seconds else None)
            built, why = done.returncode == 0, ""
        except subprocess.TimeoutExpired:
            built, why = False, f"error: it was not built within {seconds} s\n"
        finally:
            sandbox.end_all_children()
    return built, why + log.read_text(encoding="utf-8", errors="replace")


def _compiler_words(output, exercise):
    """From the first error in the student's file on, without the commands."""
    lines = [line.replace(str(manifest.ROOT) + "/", "") for line in output.split("\n")
             if not line.startswith("ninja:")]
    first = next((i for i, line in enumerate(lines) if "error:" in line),
                 next((i for i, line in enumerate(lines) if "undefined reference" in line), 0))
    left = len("\n".join(lines[first + 8:]).strip().split("\n"))
    return "\n".join(lines[first:first + 8] + ([f"... {left} lines more"] if left > 1 else []))


def _defined(file):
    """(member of a library, symbol) of the functions that an object or a library defines."""
    lines = subprocess.run(["nm", "-P", "-A", "--defined-only", "--extern-only", file], check=True,
                           capture_output=True, text=True, errors="replace").stdout.split("\n")
    words = [line.split() for line in lines]
    return {(w[0], w[1]) for w in words if len(w) > 2 and w[2] == "T"}


def not_defined(exercise, build):
    """Launchers of a kernel file that the student's does not define. The library has them, and the
    linker would take those."""
    if exercise.kind != "kernel":
        return []  # the starter's functions, marked weak, come before the library's
    build = pathlib.Path(build)
    member = f"[{pathlib.Path(exercise.kernel).name}.cpp.o]:"
    wanted = {symbol for where, symbol in _defined(build / "kernels/libattention_kernels_checked.a")
              if where.endswith(member)}
    folder = build / f"tests/course/CMakeFiles/grade_{exercise.id}_code_checked.dir"
    return sorted(wanted - {symbol for path in folder.rglob("*.o") for _, symbol in _defined(path)})


def missing(exercise, build, root=manifest.ROOT):
    """What keeps an exercise from being graded, or ''."""
    if not (root / exercise.tests).exists():
        return f"{exercise.tests} is missing: take it from where you have the course from"
    file = root / exercise.file
    if file.is_symlink() or file.exists() and not file.is_file():
        return f"{exercise.file} is no plain file"
    if not file.exists():
        return f"{exercise.file} is missing: git checkout -- {exercise.file}"
    blocked = pathlib.Path(build) / "tests/course/generated/blocked" / exercise.id
    if blocked.exists():
        return blocked.read_text().strip()
    return ""


def grade(exercise, build, seed=1):
    """Builds and runs the student's file of one exercise."""
    why = missing(exercise, build)
    if why:
        return _nothing(exercise, "blocked", why)
    folder = pathlib.Path(build) / "grade"
    folder.mkdir(exist_ok=True)
    log = folder / f"{exercise.id}.log"
    # First what is not the student's: if that fails, it is not the student's failure.
    needs = ["course_main", f"course_tests_{exercise.id}", "kv_core"]
    needs.append("kv_kernels" if exercise.kind == "kernel" else f"course_gap_{exercise.id}")
    if exercise.kind == "kernel" and not (pathlib.Path(build) / "kernels/libkv_kernels.a").exists():
        print("building the kernels for the emulator: minutes, this once", flush=True)
    built, output = _build(build, needs, log)
    if not built:
        return _nothing(exercise, "blocked", f"the course itself does not build, see {log}\n"
                        + _compiler_words(output, exercise))
    built, output = _build(build, [f"grade_{exercise.id}"], log, BUILD_SECONDS)
    if not built:
        return _nothing(exercise, "does not compile",
                        f"{_compiler_words(output, exercise)}\nall of it: {log}")
    if lacking := not_defined(exercise, build):
        names = subprocess.run(["c++filt", *lacking], check=True, capture_output=True, text=True)
        return _nothing(exercise, "fail",
                        f"{exercise.file} does not define {', '.join(names.stdout.splitlines())}")
    program = pathlib.Path(build) / "bin" / f"grade_{exercise.id}"
    outcome = sandbox.run(program, [c.name for c in exercise.criteria], seed=seed)
    result = judge(exercise, outcome)
    if result.state == "fail" and "warning:" in output:
        result.note = f"{result.note}\nthe compiler warned of something: {log}".strip()
    return result


def chosen(word, root=manifest.ROOT):
    """Exercises of '', 'NN' or 'NN_name'."""
    found = [e for e in manifest.exercises(root) if e.id == word or e.id.startswith(word + "_")
             or not word]
    if not found:
        known = ", ".join(sorted({e.chapter[:2] for e in manifest.exercises(root)}))
        raise manifest.CourseError(f"no exercise '{word}': give a chapter ({known}), an exercise "
                                   "such as 05_fork, or nothing for all")
    return found


def status(results):
    """0: full marks, 1: not, 2: something could not be graded."""
    if any(result.state == "blocked" for result in results):
        return 2
    return 0 if all(result.state == "pass" for result in results) else 1


def _write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def main():
    sys.stdout.reconfigure(errors="backslashreplace")  # a terminal may not have every letter
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends the student's program as well
    parser = argparse.ArgumentParser(prog="./kv grade", description=__doc__)
    parser.add_argument("which", nargs="?", default="", metavar="NN or NN_NAME",
                        help="a chapter or an exercise; all when left out")
    parser.add_argument("--hints", type=int, choices=(0, 1, 2, 3), default=1,
                        help="hints to show for each exercise that is not passed")
    parser.add_argument("--seed", type=int,
                        help="of the numbers in the tests; the course's when left out")
    parser.add_argument("--build", default="build/default", help=argparse.SUPPRESS)
    args = parser.parse_args()
    try:
        exercises = chosen(args.which)
        seed = course_file.seed() if args.seed is None else args.seed
    except manifest.CourseError as error:
        print(f"kv: {error}", file=sys.stderr)
        return 2
    folder = pathlib.Path(args.build) / "grade"
    for name in ("results.json", "results.xml"):  # of whoever was graded before
        (folder / name).unlink(missing_ok=True)
    results, chapter = [], ""
    for exercise in exercises:
        if exercise.chapter != chapter:
            chapter = exercise.chapter
            print(f"\n{chapter}")
        results.append(grade(exercise, args.build, seed))
        print(report.show_one(results[-1], args.hints), flush=True)
    print(f"\n{report.total(results)}")
    _write(folder / "results.json", report.gradescope(results))
    _write(folder / "results.xml", report.junit(results))
    print(f"written: {folder / 'results.json'} (Gradescope), {folder / 'results.xml'} (JUnit)")
    return status(results)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("\nkv: ended by Ctrl-C; nothing was written", file=sys.stderr)
        sys.exit(130)
