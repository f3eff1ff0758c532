"""record.py BUILD_FOLDER [NAME...]: runs commands of docs/evidence.toml, all or those named, with the
programs of a build folder, and writes docs/results/."""

import datetime
import html
import os
import pathlib
import re
import subprocess
import sys
import time

from records import ROOT, RecordError, load, record_path
from run_command import run

SHOWN_FLAGS = ("avx512f", "avx2", "fma", "f16c", "asimd")  # of the instruction set


def machine():
    cpu = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
    name = re.search(r"model name\s*: (.+)", cpu)
    flags = re.search(r"(?:flags|Features)\s*: (.+)", cpu)[1].split()
    cores = len(os.sched_getaffinity(0))
    return ", ".join([f"{cores} cores of {name[1] if name else os.uname().machine}",
                      " ".join(flag for flag in SHOWN_FLAGS if flag in flags)])


def compiler(build):
    cache = dict(re.findall(r"(?m)^(\w+):\w+=(.*)$", (build / "CMakeCache.txt").read_text()))
    version = subprocess.run([cache["CMAKE_CXX_COMPILER"], "--version"], capture_output=True,
                             text=True, check=True).stdout.splitlines()[0]
    flags = cache.get(f"CMAKE_CXX_FLAGS_{cache['CMAKE_BUILD_TYPE'].upper()}", "")
    return f"{version}, {flags}{' -march=native' if cache.get('KV_NATIVE') == 'ON' else ''}"


def fastest(command, programs):
    best = None
    for _ in range(command.fastest_of):
        start = time.monotonic()
        result = run(command, programs)
        seconds = time.monotonic() - start
        if best is None or seconds < best[0]:
            best = (seconds, result)
    return best[1]


def record(command, build):
    output, svg = fastest(command, build / "bin")
    header = {"command": " && ".join(command.lines), "date": datetime.date.today().isoformat(),
              "machine": machine(), "compiler": compiler(build)}
    if command.fastest_of > 1:
        header["run"] = f"the fastest of {command.fastest_of}"
    head = "".join(f"{word}: {text}\n" for word, text in header.items())
    record_path(command.name).write_text(f"{head}\n{output}", encoding="utf-8")
    if svg:
        about = "; ".join(header[word] for word in ("command", "date", "machine"))
        svg = svg.replace(">\n", f">\n<desc>{html.escape(about)}</desc>\n", 1)
        record_path(command.name, ".svg").write_text(svg, encoding="utf-8")


def main():
    build, names = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]
    known = load().command
    for name in names or known:
        if name not in known:
            sys.exit(f"record: no command is named {name}")
        try:
            record(known[name], build)
        except RecordError as error:
            sys.exit(f"record: {error}")
        print(record_path(name).relative_to(ROOT))


if __name__ == "__main__":
    main()
