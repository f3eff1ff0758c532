"""Runs a command of docs/evidence.toml with the programs of any build folder."""

import shlex
import subprocess
import tempfile
import pathlib

from records import PROGRAMS, ROOT, RecordError


def arguments(line, programs):
    """A page's command line, with this build's program and whole paths of the repository's files."""
    words = shlex.split(line)
    program = programs / words[0].removeprefix(PROGRAMS)
    return [str(program), *(str(ROOT / word) if "/" in word and (ROOT / word).is_file() else word
                            for word in words[1:])]


def missing_program(command, programs):
    """A program that this build does not have, or None."""
    for line in command.lines:
        program = pathlib.Path(arguments(line, programs)[0])
        if not program.is_file():
            return program.name
    return None


def run(command, programs):
    """What the command prints, and the text of its plot or None. It runs in an empty folder."""
    output, svg = "", None
    with tempfile.TemporaryDirectory() as folder:
        for line in command.lines:
            done = subprocess.run(arguments(line, programs), cwd=folder, capture_output=True,
                                  text=True, encoding="utf-8", timeout=300)
            if done.returncode != 0:
                raise RecordError(f"{line}: exit status {done.returncode}: {done.stderr.strip()}")
            output += (f"$ {line}\n" if len(command.lines) > 1 else "") + done.stdout
        if command.svg:
            svg = (pathlib.Path(folder) / command.svg_name).read_text(encoding="utf-8")
    return output.replace(f"{ROOT}/", ""), svg
