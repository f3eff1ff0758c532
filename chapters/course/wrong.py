"""Planted wrong answers: tests/mutants/course/NN_name.toml, each made from the reference's answer."""

import dataclasses
import tomllib

import manifest
import starters


@dataclasses.dataclass(frozen=True)
class WrongAnswer:
    name: str
    loses: tuple  # criteria that must not be earned
    text: str  # the student's file


def answers(exercise, root=manifest.ROOT):
    path = root / "tests" / "mutants" / "course" / f"{exercise.id}.toml"
    if not path.exists():
        return []
    where = path.relative_to(root)
    known = {criterion.name for criterion in exercise.criteria}
    found = []
    for entry in tomllib.loads(path.read_text())["wrong"]:
        text = starters.text_of(exercise, True, root)
        for change in entry["change"]:
            if text.count(change["find"]) != 1:
                raise manifest.CourseError(f"{where}: {entry['name']}: its text occurs "
                                           f"{text.count(change['find'])} times: {change['find']}")
            text = text.replace(change["find"], change["replace"])
        strangers = set(entry["loses"]) - known
        if strangers or not entry["loses"]:
            raise manifest.CourseError(f"{where}: {entry['name']}: no such criterion: {strangers}")
        found.append(WrongAnswer(entry["name"], tuple(entry["loses"]), text))
    return found


def uncaught(exercise, root=manifest.ROOT):
    """Criteria that no wrong answer has to lose, and whether there are too few answers."""
    found = answers(exercise, root)
    lost = {criterion for answer in found for criterion in answer.loses}
    missing = [c.name for c in exercise.criteria if c.name not in lost]
    return missing, len(found) < 3
