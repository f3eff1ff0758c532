"""Runs a student's program so that whatever it does costs only its own exercise.

Bounded: time, memory, output, files, processes. Whatever it started is gone when run() returns.
This contains accidents and mischief on one's own machine; it is no wall against an attacker, since
the program runs with the rights of whoever grades (as nobody, when that is root).
"""

import ctypes
import dataclasses
import json
import os
import pathlib
import resource
import secrets
import selectors
import shutil
import signal
import subprocess
import tempfile
import time

MEGABYTE = 1 << 20
MOST_PROCESSES = 16  # more than the one is needed: addr2line names the lines of a race
NOBODY = 65534
_PR_SET_CHILD_SUBREAPER = 36


@dataclasses.dataclass(frozen=True)
class Limits:
    seconds: int = 60
    memory: int = 2048 * MEGABYTE
    output: int = 8 * MEGABYTE


@dataclasses.dataclass
class Outcome:
    cases: list  # {"case", "passed", "assertions", "details"} of each case that ended
    complete: bool  # every case was run and the program said so itself
    why: str  # why it is not complete: one line
    output: str  # the end of what it printed


def _tasks_of(user):
    """Threads and processes of a user: the limit of the kernel counts both."""
    count = 0
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if path.stat().st_uid == user:
                count += len(list((path / "task").iterdir()))
        except OSError:
            pass  # it has ended meanwhile
    return count


def _confine(limits, user, most_tasks):
    """Runs in the new process before the program."""
    for what, value in ((resource.RLIMIT_CPU, limits.seconds + 1),
                        (resource.RLIMIT_AS, limits.memory),
                        (resource.RLIMIT_FSIZE, limits.output), (resource.RLIMIT_CORE, 0),
                        (resource.RLIMIT_NPROC, most_tasks)):
        resource.setrlimit(what, (value, value))
    if user != os.getuid():
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(user)


def adopt_orphans():
    """What a program leaves behind becomes a child of this process."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _descendants():
    """Processes that this one has started, directly or not, and that are no zombies."""
    parents = {}
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = path.read_text(errors="replace").rpartition(")")[2].split()[:2]
        except (OSError, ValueError):
            continue  # it has ended meanwhile
        if state not in "ZX":
            parents[int(path.parent.name)] = int(parent)
    found, newest = set(), {os.getpid()}
    while newest:
        newest = {pid for pid, parent in parents.items() if parent in newest} - found
        found |= newest
    return found


def _signal(pids, number):
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def end_all_children():
    """Ends everything that is left of a program, after adopt_orphans()."""
    for _ in range(100):
        # First all are stopped: of those that start others faster than they are ended, none starts
        # any more.
        stopped = set()
        while left := _descendants() - stopped:
            _signal(left, signal.SIGSTOP)
            stopped |= left
        _signal(stopped, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.005)


def _folder_prefix():
    return f"kv-grade-{os.getpid()}-"  # another grader may run beside this one


def left_behind():
    """Command lines of programs that this process has run and that still run."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if f"/{_folder_prefix()}" in line:
            found.append(line)
    return found


def _pump(process, results, limits):
    """Collects both streams until they end or a limit is met: (results, output, why or '')."""
    streams = {results: bytearray(), process.stdout.fileno(): bytearray()}
    total, end = 0, time.monotonic() + limits.seconds
    with selectors.DefaultSelector() as selector:
        for stream in streams:
            selector.register(stream, selectors.EVENT_READ)
        while selector.get_map():
            left = end - time.monotonic()
            if left <= 0:
                return *streams.values(), f"it did not end within {limits.seconds} s"
            if process.poll() is not None and not selector.select(0):
                break  # a process that it left behind may hold the streams open
            for key, _ in selector.select(min(left, 0.2)):
                data = os.read(key.fd, 65536)
                if not data:
                    selector.unregister(key.fd)
                total += len(data)
                streams[key.fd] += data
                if key.fd != results:
                    del streams[key.fd][:-8192]
                if total > limits.output:
                    return (*streams.values(),
                            f"it printed more than {limits.output // MEGABYTE} MiB")
    return *streams.values(), ""


def _why_ended(process):
    status = process.wait()
    if status < 0:
        try:
            return f"it was ended by {signal.Signals(-status).name}"
        except ValueError:  # a real-time signal has no name
            return f"it was ended by signal {-status}"
    return f"it ended by itself (status {status}) before its tests did"


_MEMBERS = {"case": str, "passed": bool, "assertions": int, "details": str}


def _parse(data, key, expected):
    """The cases of the results, and whether they are whole. The student's code can write here too,
    so nothing is taken for granted."""
    cases, whole = [], False
    for line in data.decode(errors="replace").rstrip("\n").split("\n"):
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            return cases, False
        if not isinstance(entry, dict) or whole:
            return cases, False
        if "end" in entry:
            whole = entry == {"end": len(cases), "key": key}
        elif {name: type(value) for name, value in entry.items()} == _MEMBERS:
            cases.append(entry)
        else:
            return cases, False
    return cases, whole and sorted(case["case"] for case in cases) == sorted(expected)


def _converse(process, key, results, limits):
    """Gives the key and collects what comes: (results, output, why it ended)."""
    try:
        process.stdin.write(f"{key}\n".encode())
        process.stdin.close()
    except BrokenPipeError:
        pass
    data, output, why = _pump(process, results, limits)
    if why:
        return data, output, why
    try:
        process.wait(1)
    except subprocess.TimeoutExpired:
        process.kill()
    return data, output, _why_ended(process)


def run(program, expected, limits=Limits(), seed=1):
    """Runs the program of one exercise.

    expected: names of the cases that must have run.
    """
    adopt_orphans()
    user = NOBODY if os.getuid() == 0 else os.getuid()
    key = secrets.token_hex(16)
    read, write = os.pipe()
    with tempfile.TemporaryDirectory(prefix=_folder_prefix(), ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o777)
        copy = pathlib.Path(folder) / "program"
        shutil.copy(program, copy)
        copy.chmod(0o755)
        most_tasks = _tasks_of(user) + MOST_PROCESSES
        process = subprocess.Popen(
            [copy, str(write)], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, pass_fds=[write], start_new_session=True,
            preexec_fn=lambda: _confine(limits, user, most_tasks),
            env={"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "KV_COURSE_SEED": str(seed),
                 "LC_ALL": "C.UTF-8"})
        os.close(write)
        try:
            data, output, why = _converse(process, key, read, limits)
        finally:  # also when the grader itself is interrupted
            process.kill()
            process.wait()
            process.stdout.close()
            os.close(read)
            end_all_children()
    cases, complete = _parse(bytes(data), key, expected)
    return Outcome(cases, complete, "" if complete else why,
                   bytes(output).decode(errors="replace"))
