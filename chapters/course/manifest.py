"""Reads chapters/NN_name/exercises.toml: which regions of the reference are exercises."""

import dataclasses
import pathlib
import re
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]


class CourseError(Exception):
    """What a person has to put right; the text is one line."""


@dataclasses.dataclass(frozen=True)
class Criterion:
    """One test case of an exercise, and what it is worth."""

    name: str  # of the test case, word for word
    points: int


@dataclasses.dataclass(frozen=True)
class Exercise:
    """One exercise. Paths are relative to the root of the repository."""

    chapter: str  # folder of the chapter, such as 05_paged_cache
    name: str
    title: str
    kind: str  # "function": whole functions; "kernel": a kernel file with gaps
    source: str  # the reference
    regions: tuple  # marked by //! [region] in the source
    includes: tuple  # of a function's starter
    context: tuple  # regions of the source that a function's starter begins with
    define: str  # a macro that takes inline functions out of their header, or ""
    kernel: str  # the .cu file that is compiled where source is a header of it, else source
    program: str  # of a chapter, that a reader's functions can be linked into, or ""
    task: str
    section: str  # anchor in the chapter's page
    hints: tuple  # three: a nudge, the idea, the formula
    criteria: tuple

    @property
    def id(self):
        return f"{self.chapter[:2]}_{self.name}"

    @property
    def points(self):
        return sum(criterion.points for criterion in self.criteria)

    @property
    def file(self):
        """The student's file."""
        suffix = pathlib.Path(self.source).suffix if self.kind == "kernel" else ".cpp"
        return f"chapters/{self.chapter}/exercise/{self.name}{suffix}"

    @property
    def page(self):
        return f"chapters/{self.chapter}/README.md" + (f"#{self.section}" if self.section else "")

    @property
    def tests(self):
        return f"tests/course/{self.id}.cpp"


_KEYS = {"name", "title", "kind", "source", "regions", "includes", "context", "define", "kernel",
         "program", "task", "section", "hints", "criterion"}


def _exercise(chapter, entry, where):
    def need(condition, what):
        if not condition:
            raise CourseError(f"{where}: exercise '{entry.get('name', '?')}': {what}")

    need(set(entry) <= _KEYS, f"unknown key {sorted(set(entry) - _KEYS)}")
    for key in ("name", "title", "kind", "source", "regions", "task", "hints", "criterion"):
        need(entry.get(key), f"'{key}' is missing")
    need(re.fullmatch(r"[a-z][a-z0-9_]*", entry["name"]), "a name has letters, digits and _")
    need(entry["kind"] in ("function", "kernel"), "kind is 'function' or 'kernel'")
    need(len(entry["hints"]) == 3, "there are three hints: a nudge, the idea, the formula")
    criteria = tuple(Criterion(c["name"], c["points"]) for c in entry["criterion"])
    need(all(c.points > 0 for c in criteria), "points are positive")
    need(len({c.name for c in criteria}) == len(criteria), "two criteria of the same name")
    return Exercise(chapter, entry["name"], entry["title"], entry["kind"], entry["source"],
                    tuple(entry["regions"]), tuple(entry.get("includes", ())),
                    tuple(entry.get("context", ())), entry.get("define", ""),
                    entry.get("kernel", entry["source"]), entry.get("program", ""),
                    entry["task"].strip(), entry.get("section", ""), tuple(h.strip() for h in entry["hints"]), criteria)


def chapters(root=ROOT):
    """Folders of the chapters that have exercises, in order."""
    return sorted(path.parent.name for path in root.glob("chapters/[0-9][0-9]_*/exercises.toml"))


def exercises(root=ROOT):
    """All exercises in the order of the chapters and of their files."""
    found = []
    for chapter in chapters(root):
        path = root / "chapters" / chapter / "exercises.toml"
        try:
            entries = tomllib.loads(path.read_text())["exercise"]
        except (tomllib.TOMLDecodeError, KeyError) as error:
            raise CourseError(f"{path.relative_to(root)}: {error}") from error
        found += [_exercise(chapter, entry, path.relative_to(root)) for entry in entries]
    ids = [exercise.id for exercise in found]
    for name in ids:
        if ids.count(name) > 1:
            raise CourseError(f"two exercises are called {name}")
    return found
