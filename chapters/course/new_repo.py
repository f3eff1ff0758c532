"""Writes a student repository: the course without its solutions.

Every exercise's region is taken out of the sources; a compiled stand-in of it is put beside them,
so that everything still builds and an exercise that is not done blocks nothing.
"""

import dataclasses
import os
import pathlib
import platform
import re
import shutil
import subprocess
import tomllib

import manifest
import regions
import starters

STAND_IN_BUILD = "build/stand_in"
# What only who makes the course needs.
_LEFT_OUT = ("tests/", ".ci/", "kernels/sass/", "chapters/course/course.py",
             "chapters/course/new_repo.py", "chapters/course/starters.py",
             "chapters/course/regions.py", "chapters/course/wrong.py", "chapters/course/templates/",
             "docs/instructors.md", "docs/site/", "docs/results/", "docs/evidence.toml", "README.md", "CONTRIBUTING.md", ".github/")


@dataclasses.dataclass(frozen=True)
class Plan:
    """What an instructor asks for."""

    folder: pathlib.Path
    chapters: tuple  # numbers as text, such as "03"
    seed: int
    points: dict  # exercise id -> {criterion: points}
    title: str
    due: str  # free text, or ""


def chapter_range(text):
    """"1-3", "2" or "1,4-5" as ("01", "02", "03")."""
    numbers = set()
    for part in text.split(","):
        match = re.fullmatch(r"(\d{1,2})(?:-(\d{1,2}))?", part.strip())
        if not match:
            raise manifest.CourseError(f"--chapters '{text}': write 1-3, 2 or 1,4-5")
        first, last = int(match[1]), int(match[2] or match[1])
        numbers |= set(range(first, last + 1))
    known = {int(name[:2]) for name in manifest.chapters()}
    if not numbers or not numbers <= known:
        raise manifest.CourseError(f"--chapters '{text}': chapters with exercises are "
                                   f"{', '.join(map(str, sorted(known)))}")
    return tuple(f"{number:02}" for number in sorted(numbers))


def point_table(path):
    """P.toml: ["05_fork"] with "criterion" = points; what it does not name keeps its points."""
    try:
        table = tomllib.loads(pathlib.Path(path).read_text())
    except (OSError, ValueError) as error:  # not there, not TOML, not text
        raise manifest.CourseError(f"--points {path}: {error}") from error
    known = {e.id: {c.name for c in e.criteria} for e in manifest.exercises()}
    for name, entries in table.items():
        if name not in known:
            raise manifest.CourseError(f"--points {path}: there is no exercise '{name}'")
        if not isinstance(entries, dict):
            raise manifest.CourseError(f"--points {path}: write [{name}], then \"criterion\" = points")
        for criterion, points in entries.items():
            if criterion not in known[name]:
                raise manifest.CourseError(f"--points {path}: {name} has no '{criterion}'")
            if not isinstance(points, int) or isinstance(points, bool) or not 1 <= points <= 1000:
                raise manifest.CourseError(f"--points {path}: {name}: '{criterion}': points are "
                                           "whole numbers from 1 to 1000")
    return table


def _tracked():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=manifest.ROOT, check=True,
                            capture_output=True, text=True).stdout
    return [name for name in listed.split("\0") if name]


def _without_solutions(name, text):
    """A source file with every exercise's region taken out."""
    for exercise in manifest.exercises():
        if exercise.source != name:
            continue
        for region in exercise.regions:
            lines = text.split("\n")
            first, end = regions.find(text, region, name)
            pad = " " * regions.indentation(lines[first:end])
            lines[first - 1:end + 1] = [f"{pad}// Here belongs exercise {exercise.id}."]
            text = "\n".join(lines)
    return text


def _includes(path, seen, folder):
    """A file and all that it includes, directly or not, of a folder."""
    if path not in seen and path.exists():
        seen.add(path)
        for name in re.findall(r'#include "([^"]+)"', path.read_text()):
            _includes(folder / name, seen, folder)
    return seen


def _check_committed(mine):
    """Only what is committed is copied: nothing of a teacher's own goes along unseen."""
    tracked = set(_tracked())
    for exercise in mine:
        for name in (f"chapters/{exercise.chapter}/exercises.toml", exercise.source, exercise.tests):
            if name not in tracked:
                raise manifest.CourseError(f"{name} is not committed; git add and commit it first")


def _files_of_tests(exercise):
    """The test of an exercise and what it includes of tests/."""
    tests = manifest.ROOT / "tests"
    found = _includes(manifest.ROOT / exercise.tests, set(), tests)
    found.add(tests / "course/main.cpp")
    return {str(path.relative_to(manifest.ROOT)) for path in found} | {"tests/course/CMakeLists.txt"}


def _has_kernels(plan):
    return plan.chapters[-1] >= "03"


def _copy_tree(plan, mine):
    keep = set().union(*map(_files_of_tests, mine))
    sources = {exercise.source for exercise in manifest.exercises()}
    last = plan.chapters[-1]
    for name in _tracked():
        chapter = re.match(r"chapters/(\d\d)_", name)
        if name not in keep and name.startswith(_LEFT_OUT):
            continue
        if chapter and chapter[1] > last:
            continue
        if name == "chapters/course/test.toml" and last < manifest.chapters()[-1]:
            continue  # it asks about all chapters
        if "/exercise/" in name:  # whatever was written into a starter here stays here
            continue
        if not _has_kernels(plan) and name.startswith("kernels/") and "toolkit" not in name:
            continue
        if name.endswith("exercises.toml") and chapter[1] not in plan.chapters:
            continue
        target = plan.folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if name in sources:
            target.write_text(_without_solutions(name, (manifest.ROOT / name).read_text()))
        else:
            shutil.copy(manifest.ROOT / name, target, follow_symlinks=False)
    for exercise in mine:
        target = plan.folder / exercise.file
        target.parent.mkdir(exist_ok=True)
        target.write_text(starters.text_of(exercise, False))


def _set_points(plan):
    """New points go into the manifests and starters of the student's repository."""
    for path in plan.folder.glob("chapters/[0-9][0-9]_*/exercises.toml"):
        number, text = path.parent.name[:2], path.read_text()
        for id_, entries in plan.points.items():
            if id_[:2] != number:
                continue
            for criterion, points in entries.items():
                begin = text.index(f'name = "{id_[3:]}"')
                at = text.index(f'name = "{criterion}"', begin)
                text = text[:at] + re.sub(r"points = \d+", f"points = {points}", text[at:], count=1)
        path.write_text(text)
    for exercise in manifest.exercises(plan.folder):
        path = plan.folder / exercise.file
        path.write_text(starters.with_points(path.read_text(), exercise))


def _quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _write_own_files(plan, mine):
    root = plan.folder
    (root / "course.toml").write_text(
        "# What your instructor has decided for this class.\n"
        f"title = {_quoted(plan.title)}\nseed = {plan.seed}\ndue = {_quoted(plan.due)}\n")
    rows = [f"| {e.id} | {e.title} | {e.points} |" for e in manifest.exercises(root)]
    total = sum(e.points for e in manifest.exercises(root))
    template = manifest.ROOT / "chapters/course/templates"
    text = (template / "student_readme.md").read_text()
    for key, value in {"@TITLE@": plan.title, "@DUE@": f"Due: {plan.due}.\n" if plan.due else "",
                       "@ROWS@": "\n".join(rows), "@TOTAL@": str(total),
                       "@FIRST@": mine[0].id, "@FIRST_FILE@": mine[0].file,
                       "@CHAPTER@": mine[0].id[:2]}.items():
        text = text.replace(key, value)
    (root / "README.md").write_text(text)
    workflow = root / ".github/workflows/grade.yml"
    workflow.parent.mkdir(parents=True)
    shutil.copy(template / "student_grade.yml", workflow)
    (root / "tests/CMakeLists.txt").write_text("add_subdirectory(course)\n")
    (root / "tests/course/exercises.cmake").write_text(
        "\n".join(starters.cmake_line(e) for e in mine) + "\n")
    for exercise in mine:
        if exercise.kind == "function":
            path = root / f"tests/course/gap/{exercise.id}.cpp"
            path.parent.mkdir(exist_ok=True)
            path.write_text(starters.gap(exercise))
    # Where a region is taken out, what only it used is left: no error here.
    for path in root.rglob("CMakeLists.txt"):
        path.write_text(path.read_text().replace(" -Werror", ""))
    # The stand-ins are for any processor of their kind; all must agree on how Eigen aligns memory.
    path = root / "CMakeLists.txt"
    off = ["NATIVE", "BENCHMARKS", "MUTANTS"] + ([] if _has_kernels(plan) else ["EMULATOR"])
    path.write_text(re.sub(rf"(option\(KV_(?:{'|'.join(off)}) .*) ON\)", r"\1 OFF)",
                           path.read_text()))
    emulated = root / "kernels/emulated_kernels.cmake"
    if emulated.exists():
        emulated.write_text(emulated.read_text().replace(" -Werror", ""))


def _kernels_with_gaps():
    gaps = {manifest.ROOT / e.source for e in manifest.exercises() if e.kind == "kernel"}
    return [path for path in sorted((manifest.ROOT / "kernels").glob("*/*.cu"))
            if gaps & _includes(path, set(), manifest.ROOT / "kernels")]


def _run(*command, cwd=manifest.ROOT, env=None):
    done = subprocess.run(command, cwd=cwd, env=env, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        raise manifest.CourseError(f"{' '.join(map(str, command[:4]))} ... failed:\n"
                                   + "\n".join(done.stdout.split("\n")[-30:]))
    return done.stdout


def _make_stand_ins(plan):
    """Compiles what stands in for every exercise, for any processor of this kind."""
    print("compiling what stands in for exercises that are not done (minutes, the first time)",
          flush=True)
    build = manifest.ROOT / STAND_IN_BUILD
    _run("cmake", "--preset", "default", "-B", STAND_IN_BUILD, "-DKV_NATIVE=OFF",
         "-DKV_MUTANTS=OFF", "-DKV_BENCHMARKS=OFF", "-DKV_KERNEL_DEBUG=-g1")
    functions = [e for e in manifest.exercises() if e.kind == "function"]
    libraries = [f"attention_kernels_{build}" for build in ("checked", "emulated")
                 if _has_kernels(plan)]
    _run("cmake", "--build", STAND_IN_BUILD, "--target", *libraries,
         *(f"course_stand_in_{e.id}" for e in functions))
    out = plan.folder / "stand_in" / platform.machine()
    (out / "functions").mkdir(parents=True)
    for exercise in functions:
        target = build / f"tests/course/CMakeFiles/course_stand_in_{exercise.id}.dir"
        shutil.copy(next(target.rglob("*.o")), out / "functions" / f"{exercise.id}.o")
    for library in libraries:
        folder = out / library
        folder.mkdir()
        members = [f"{path.name}.cpp.o" for path in _kernels_with_gaps()]
        _run("ar", "x", build / f"kernels/lib{library}.a", *members, cwd=folder)
    # The emulator goes by the lines of a kernel: what it reports, and what it leaves out of counts.
    for path in out.rglob("*.o"):
        if path.parent.name == "functions":
            _run("strip", "--strip-debug", path)
        else:
            _run("objcopy", "--compress-debug-sections", path)


def _check(plan):
    """Before minutes of work: what would fail at its end, or in the hands of students."""
    if plan.folder.exists() and not (plan.folder.is_dir() and not any(plan.folder.iterdir())):
        raise manifest.CourseError(f"{plan.folder} is no empty folder")
    if plan.folder.resolve().is_relative_to(manifest.ROOT):
        raise manifest.CourseError(f"{plan.folder} is inside the course: choose a folder outside")
    if not plan.title.strip() or not (plan.title + plan.due).isprintable():
        raise manifest.CourseError("--title and --due are each one line of text")
    if not 0 <= plan.seed < 1 << 63:
        raise manifest.CourseError(f"--seed {plan.seed}: a seed is a whole number from 0 to 2^63 - 1")


def write(plan):
    """Writes the repository. \\raises CourseError when the folder is not empty"""
    _check(plan)
    mine = [e for e in manifest.exercises() if e.chapter[:2] in plan.chapters]
    _check_committed(mine)
    try:
        _write(plan, mine)
    except BaseException:
        shutil.rmtree(plan.folder, ignore_errors=True)  # it was empty before
        raise
    return mine


def _write(plan, mine):
    plan.folder.mkdir(parents=True, exist_ok=True)
    _copy_tree(plan, mine)
    _set_points(plan)
    _write_own_files(plan, mine)
    _make_stand_ins(plan)
    environment = {**os.environ, "GIT_AUTHOR_NAME": "course", "GIT_AUTHOR_EMAIL": "course@invalid",
                   "GIT_COMMITTER_NAME": "course", "GIT_COMMITTER_EMAIL": "course@invalid"}
    for command in (["init", "--quiet", "--initial-branch=main"], ["add", "--all"],
                    ["commit", "--quiet", "--no-gpg-sign", "--message", plan.title]):
        _run("git", *command, cwd=plan.folder, env=environment)
