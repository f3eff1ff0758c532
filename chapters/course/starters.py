"""Writes the files that students fill in, from the marked regions of the reference."""

import dataclasses
import pathlib
import subprocess
import textwrap

import manifest
import regions

_WIDTH = 96  # of a comment's text


def _points(exercise):
    return [f"// {exercise.points} points:"] + \
        [f"//   {c.points}  {c.name}" for c in exercise.criteria]


def _head(exercise):
    """The comment on top of a student's file."""
    lines = [f"Chapter {int(exercise.chapter[:2])}, exercise {exercise.name}: {exercise.title}.", ""]
    for paragraph in exercise.task.split("\n\n"):
        lines += textwrap.wrap(paragraph, _WIDTH) + [""]
    ours = [f"src/{name}" for name in exercise.includes if not name.startswith("<")]
    if exercise.kind == "function" and ours:
        lines += textwrap.wrap(f"Declarations, with shapes and errors: {', '.join(ours)}.", _WIDTH)
        lines.append("")
    end = ["", f"Page:  {exercise.page}", f"Grade: ./kv grade {exercise.id}"]
    return [f"// {line}".rstrip() for line in lines] + _points(exercise) + \
        [f"// {line}".rstrip() for line in end]


def with_points(text, exercise):
    """A starter with another table of points."""
    lines = text.split("\n")
    first = next(i for i, line in enumerate(lines) if line.endswith(" points:"))
    lines[first:first + 1 + len(exercise.criteria)] = _points(exercise)
    return "\n".join(lines)


def _function_file(exercise, text, bodies, weak=False, does_nothing=False):
    lines = _head(exercise)
    includes = list(exercise.includes) + ["kv/exercise.hpp"]
    system = sorted(f"#include {name}" for name in includes if name.startswith("<"))
    ours = sorted(f'#include "{name}"' for name in includes if not name.startswith("<"))
    lines += system + ([""] if system else []) + ours + ["", "namespace kv {", ""]
    for name in exercise.context:
        lines += regions.region(text, name, exercise.source) + [""]
    for name in exercise.regions:
        code = regions.own_definition(regions.region(text, name, exercise.source), weak)
        lines += (code if bodies else regions.empty_functions(code, does_nothing)) + [""]
    return lines + ["}  // namespace kv", ""]


def _kernel_file(exercise, text, bodies, does_nothing=False):
    lines = text.split("\n")
    if not bodies:
        for name in exercise.regions:
            first, end = regions.find("\n".join(lines), name, exercise.source)
            code = lines[first:end]
            if any(line == "}" for line in code):
                gap = regions.empty_functions(code, does_nothing)
            elif does_nothing:
                gap = []
            else:
                gap = [" " * regions.indentation(code) + regions.TODO]
            lines[first:end] = gap
        lines = ['#include "kv/exercise.hpp"', ""] + lines
    return _head(exercise) + [""] + [line for line in lines if not regions.is_marker(line)]


def text_of(exercise, bodies, root=manifest.ROOT):
    """The student's file: with gaps, or with the reference's code (`bodies`)."""
    text = (root / exercise.source).read_text()
    make = _kernel_file if exercise.kind == "kernel" else _function_file
    return "\n".join(make(exercise, text, bodies))


def does_nothing(exercise, root=manifest.ROOT):
    """The laziest answer: every gap is left empty. It must earn nothing."""
    text = (root / exercise.source).read_text()
    make = _kernel_file if exercise.kind == "kernel" else _function_file
    return "\n".join(make(exercise, text, False, does_nothing=True))


def stand_in(exercise, root=manifest.ROOT):
    """The reference's function in a file of its own, for the linker to replace."""
    text = (root / exercise.source).read_text()
    return "\n".join(_function_file(exercise, text, True, weak=True))


def gap(exercise, root=manifest.ROOT):
    """Weak definitions that say "not done yet", for what a student's file does not define: the
    reference must not stand in for the very exercise that is graded."""
    text = (root / exercise.source).read_text()
    bare = dataclasses.replace(exercise, context=())  # only bodies use it, and the student's has it
    return f'#line 1 "{exercise.file}"\n' + \
        "\n".join(_function_file(bare, text, False, weak=True))


def cmake_line(exercise):
    """How CMake is told of an exercise."""
    header = kernel = ""
    if exercise.kind == "kernel":
        kernel = exercise.kernel
        if exercise.kernel != exercise.source:
            header = exercise.source.removeprefix("kernels/")
    return f'kv_exercise({exercise.id} {exercise.kind} {exercise.file} "{kernel}" "{header}" ' \
        f'"{exercise.define}" {pathlib.PurePath(exercise.file).suffix} "{exercise.program}")'


def _is_work(path, root):
    """Whether a starter holds what nobody has committed: somebody's answer."""
    status = subprocess.run(["git", "status", "--porcelain", "--", path], cwd=root, check=True,
                            capture_output=True, text=True).stdout
    return status.startswith((" M", "MM", "AM", "M "))


def write_all(root=manifest.ROOT, force=False):
    """Writes every starter anew, except those that hold somebody's answer unless `force`. Returns
    the files that changed, and those that were kept."""
    changed, kept = [], []
    for exercise in manifest.exercises(root):
        path = root / exercise.file
        text = text_of(exercise, False, root)
        if path.exists() and path.read_text() == text:
            continue
        if path.exists() and not force and _is_work(path, root):
            kept.append(exercise.file)
            continue
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        changed.append(exercise.file)
    return changed, kept


def drifted(root=manifest.ROOT):
    """Starters in the tree that are not what the reference makes of them, and strangers."""
    wrong, expected = [], set()
    for exercise in manifest.exercises(root):
        path = root / exercise.file
        expected.add(path)
        if not path.exists() or path.read_text() != text_of(exercise, False, root):
            wrong.append(exercise.file)
    for path in sorted(root.glob("chapters/[0-9][0-9]_*/exercise/*")):
        if path not in expected:
            wrong.append(str(path.relative_to(root)))
    return wrong
