"""What the grader shows and writes: the terminal, results.json for Gradescope, JUnit XML."""

import json
import textwrap
import unicodedata
from xml.sax.saxutils import escape, quoteattr

_WIDTH = 96
_MOST_LINES = 12
_MOST_LETTERS = 4000  # of what a student's program or the compiler says of one case


def plain(text):
    """Text of a student's program as it may stand in a terminal, in JSON and in XML: no control
    characters, no halves of letters, no end of it far away."""
    kept = "".join(c for c in text[:_MOST_LETTERS] if c in "\n\t" or unicodedata.category(c)[0] != "C")
    return kept + ("\n..." if len(text) > _MOST_LETTERS else "")


def _wrapped(text, indent):
    return textwrap.fill(text, _WIDTH, initial_indent=indent, subsequent_indent=indent)


def _lines_of(result, num_hints):
    exercise = result.exercise
    yield f"{exercise.id:<24} {result.state:<17}{result.points:>3} of {exercise.points:>2}   " \
          f"{exercise.title}"
    if result.state in ("fail", "pass"):
        yield f"  your code was run: {exercise.file}; the reference stands in for all else"
    if result.state == "pass" and exercise.program:
        yield f"  Now let it write: ./kv run --own {exercise.id}"
    for line in plain(result.note).split("\n") if result.note else []:
        yield f"  {line}"
    if result.state == "fail":
        for criterion in exercise.criteria:
            earned = result.earned[criterion.name]
            yield f"  {earned} of {criterion.points}  {criterion.name}"
            yield from (f"          {line}" for line in _first_lines(result, criterion.name))
    if result.state in ("fail", "not done"):
        for i in range(num_hints):
            yield _wrapped(f"hint {i + 1}: {exercise.hints[i]}", "  ")
        if num_hints < len(exercise.hints):
            yield f"  more hints: ./kv grade {exercise.id} --hints {num_hints + 1}"
        yield f"  page: {exercise.page}"


def _first_lines(result, criterion):
    """What was expected and got, each line once, and not more than a screen can hold."""
    lines = list(dict.fromkeys(filter(None, plain(result.details.get(criterion, "")).split("\n"))))
    if len(lines) <= _MOST_LINES:
        return lines
    return lines[:_MOST_LINES] + [f"... {len(lines) - _MOST_LINES} lines more"]


def show_one(result, num_hints=1):
    """What a terminal shows of one exercise."""
    return "\n".join(_lines_of(result, num_hints))


def total(results):
    """The last line of a terminal."""
    earned = sum(result.points for result in results)
    return f"{earned} of {sum(result.exercise.points for result in results)} points"


def gradescope(results):
    """results.json as Gradescope's autograder reads it.

    Source: gradescope-autograders.readthedocs.io/en/latest/specs/, "Output Format".
    """
    tests = []
    for result in results:
        for number, criterion in enumerate(result.exercise.criteria, 1):
            output = "\n".join(filter(None, [result.state, plain(result.note),
                                             plain(result.details.get(criterion.name, ""))]))
            tests.append({"score": result.earned[criterion.name], "max_score": criterion.points,
                          "name": f"{result.exercise.id}: {criterion.name}",
                          "number": f"{result.exercise.id}.{number}", "output": output,
                          "status": "passed" if result.earned[criterion.name] else "failed",
                          "visibility": "visible"})
    return json.dumps({"score": sum(t["score"] for t in tests), "tests": tests,
                       "output": "The student's code was compiled and run; the reference stood in "
                                 "for exercises that are not done."}, indent=2) + "\n"


def junit(results):
    """JUnit XML, as CI systems read it: one suite an exercise."""
    suites = []
    for result in results:
        exercise, cases, failures = result.exercise, [], 0
        for criterion in exercise.criteria:
            head = f'    <testcase classname={quoteattr(exercise.id)} name={quoteattr(criterion.name)}'
            if result.earned[criterion.name]:
                cases.append(head + "/>")
                continue
            failures += 1
            text = "\n".join(filter(None, [plain(result.note),
                                           plain(result.details.get(criterion.name, ""))]))
            cases.append(f"{head}>\n      <failure message={quoteattr(result.state)}>"
                         f"{escape(text)}</failure>\n    </testcase>")
        suites.append(f'  <testsuite name={quoteattr(exercise.id)} tests="{len(cases)}" '
                      f'failures="{failures}">\n' + "\n".join(cases) + "\n  </testsuite>")
    return '<?xml version="1.0" encoding="UTF-8"?>\n<testsuites>\n' + "\n".join(suites) + \
        "\n</testsuites>\n"
