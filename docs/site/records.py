"""The commands that pages quote, and what they printed when they were last recorded.

docs/evidence.toml names the commands, docs/results/NAME.txt holds what each printed behind a header
of `word: text` lines, docs/results/NAME.svg what it drew. The site is made of these records alone;
record.py writes them, and tests compare them with the pages and with fresh runs.
"""

import dataclasses
import functools
import pathlib
import re
import shlex
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
EVIDENCE = "docs/evidence.toml"
RESULTS = "docs/results"
PROGRAMS = "build/default/bin/"  # as pages write it, whatever folder a reader builds in


class RecordError(Exception):
    """What a person has to put right; the text is one line."""


@dataclasses.dataclass(frozen=True)
class Command:
    name: str
    run: str  # the lines as a page writes them
    svg: str = ""  # what its plot is drawn from: "counted", "measured" or nothing
    fastest_of: int = 1  # times to run it when it is recorded

    @property
    def lines(self):
        return self.run.strip().splitlines()

    @property
    def svg_name(self):
        """The file behind --svg."""
        words = shlex.split(self.lines[-1])
        return words[words.index("--svg") + 1]

    @property
    def svg_path(self):
        return record_path(self.name, ".svg")


@dataclasses.dataclass(frozen=True)
class Claim:
    id: str
    chapter: str  # the name of its folder
    text: str
    command: str
    shows: list  # regular expressions, each of which a line of the output matches
    note: str = ""  # where the result differs from what a paper reports


@dataclasses.dataclass(frozen=True)
class Exempt:
    """Numbers of a page that no command prints."""
    page: str
    numbers: list
    why: str


@dataclasses.dataclass(frozen=True)
class Evidence:
    command: dict  # Command by name
    claim: list
    exempt: list


def parse(text):
    data = tomllib.loads(text)
    commands = [Command(**entry) for entry in data.get("command", [])]
    evidence = Evidence({command.name: command for command in commands},
                        [Claim(**entry) for entry in data.get("claim", [])],
                        [Exempt(**entry) for entry in data.get("exempt", [])])
    for claim in evidence.claim:
        if claim.command not in evidence.command:
            raise RecordError(f"{EVIDENCE}: claim {claim.id}: no command is named {claim.command}")
    return evidence


@functools.cache
def load():
    return parse((ROOT / EVIDENCE).read_text(encoding="utf-8"))


@dataclasses.dataclass(frozen=True)
class Record:
    header: dict  # command, date, machine, compiler
    output: str

    @property
    def made(self):
        """When and where, as a caption says it."""
        return f"{self.header['date']}, {self.header['machine']}"

    @property
    def text(self):
        """All that a page may quote."""
        return f"{self.made}\n\n{self.output}"


def parse_record(text):
    head, _, output = text.partition("\n\n")
    return Record(dict(line.split(": ", 1) for line in head.splitlines()), output)


def record_path(name, suffix=".txt"):
    return ROOT / RESULTS / f"{name}{suffix}"


def read(command):
    """The record of a command."""
    path = record_path(command.name)
    if not path.is_file():
        raise RecordError(f"{RESULTS}/{path.name}: is missing; docs/site/record.py {command.name} makes it")
    record = parse_record(path.read_text(encoding="utf-8"))
    if record.header["command"] != " && ".join(command.lines):
        raise RecordError(f"{RESULTS}/{path.name}: another command was recorded; "
                          f"docs/site/record.py {command.name} records this one")
    return record


def commands_in(text):
    """The lines that a page tells its reader to run."""
    joined = re.sub(r" *\\\n +", " ", text)
    shown = re.findall(rf"(?m)^ +(?:\$ )?({PROGRAMS}.*?)(?: +#.*)?$", joined)
    quoted = re.findall(rf"`({PROGRAMS}[^`]*)`", re.sub(r"\n *", " ", text))
    return {" ".join(line.split()) for line in shown + quoted}


def named_by(text, evidence):
    """The recorded commands of which a page names every line."""
    lines = commands_in(text)
    return [command for command in evidence.command.values() if lines.issuperset(command.lines)]
