"""Writes the parts of a chapter's page that come from other files: its exercises, its quiz and what
has changed in main.cpp. All as HTML, since their texts are no Markdown (a * b is a product)."""

import difflib
import html
import re
import sys

from pages import ROOT

sys.path.insert(0, str(ROOT / "chapters/course"))
import questions  # noqa: E402


def inline(text):
    """Text with `code` in it."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text, quote=False))


def paragraphs(text):
    return "".join(f"<p>{inline(part)}</p>\n" for part in re.split(r"\n\s*\n", text.strip()))


def exercise(entry):
    """Task, points and folded hints of one exercise."""
    criteria = "".join(f"<li>{inline(c.name)} <span class=\"points\">{c.points}</span></li>\n"
                       for c in entry.criteria)
    hints = "".join(f"<details><summary>{label}</summary>{paragraphs(hint)}</details>\n"
                    for label, hint in zip(("A nudge", "The idea", "The formula"), entry.hints))
    return (f'<div class="exercise">\n{paragraphs(entry.task)}'
            f'<p>Write it in <code>{html.escape(entry.file)}</code>, then '
            f"<code>./kv grade {entry.id}</code>. {entry.points} points:</p>\n"
            f"<ul>\n{criteria}</ul>\n{hints}</div>\n")


def question(entry, number):
    """A question whose options unfold, each with what is right or wrong about it."""
    options = ""
    for letter, option in zip(questions.LETTERS, entry.options):
        verdict = ("right", "Right.") if option.correct else ("wrong", "No.")
        options += (f"<details><summary>{letter}) {inline(option.text)}</summary>"
                    f'<p><strong class="{verdict[0]}">{verdict[1]}</strong> {inline(option.why)}</p>'
                    "</details>\n")
    return (f'<div class="question">\n<p><strong>{number}.</strong> {inline(entry.text)}</p>\n'
            f"{options}</div>\n")


def quiz(entries):
    return "".join(question(entry, number) for number, entry in enumerate(entries, 1))


def diff(before, after, names):
    """A coloured diff of two texts with three lines of context."""
    lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), *names, n=3,
                                      lineterm=""))
    kinds = {"+": "added", "-": "removed", "@": "place"}
    rows, count = [], {"added": 0, "removed": 0}
    for number, line in enumerate(lines):
        kind = "file" if number < 2 else kinds.get(line[:1], "same")
        if kind in count:
            count[kind] += 1
        rows.append(f'<span class="{kind}">{html.escape(line, quote=False) or " "}</span>')
    # A long one would stand in the way of the page.
    is_open = " open" if sum(count.values()) <= 80 else ""
    return (f"<details class=\"diff\"{is_open}><summary>{count['added']} lines added, "
            f"{count['removed']} removed</summary>\n"
            f'<div class="scroll" tabindex="0"><pre class="diff">{chr(10).join(rows)}</pre></div>\n'
            "</details>\n")
