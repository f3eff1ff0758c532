"""generate.py FOLDER: writes what Doxygen is to read into FOLDER/pages, FOLDER/parts and FOLDER/code."""

import pathlib
import shutil
import sys

import calls
import evidence
import parts
import sources
from manifest import CourseError, exercises
from pages import ROOT, Converter, SiteError, anchor, navigation, title_of
from questions import TEST, load, quizzes
from records import RecordError

LEFT_OUT = "\n## What it leaves out"  # exercises and quiz go before it


def replace_line(text, line, new, source):
    if text.count(line) != 1:
        raise SiteError(f"{source}: expected one line '{line.strip()}'")
    return text.replace(line, new)


def add_diff(text, page, before, folder):
    """Puts the diff behind the command that shows it."""
    names = [pathlib.PurePath(p.source).parent / "main.cpp" for p in (before, page)]
    texts = [(ROOT / name).read_text(encoding="utf-8") for name in names]
    part = f"{page.label}_diff.html"
    (folder / part).write_text(parts.diff(*texts, [str(name) for name in names]))
    command = f"    git diff --no-index {names[0]} {names[1]}\n"
    return replace_line(text, command, f"{command}\n\\htmlinclude[block] {part}\n", page.source)


def exercise_section(page, entries, folder):
    lines = [f"\n## Exercises {{#{anchor(page, 'exercises')}}}\n",
             "The parts of the page that they link to quote the course's own code: write yours first, "
             "then compare.\n"]
    for entry in entries:
        part = f"exercise_{entry.id}.html"
        (folder / part).write_text(parts.exercise(entry))
        name = anchor(page, f"exercise-{entry.name.replace('_', '-')}")
        lines.append(f"### {entry.title[0].upper()}{entry.title[1:]} {{#{name}}}\n")
        if entry.section:
            lines.append(f"On [this part](@ref {anchor(page, entry.section)}) of the page.\n")
        lines.append(f"\\htmlinclude[block] {part}\n")
    return "\n".join(lines)


def quiz_section(page, path, command, folder):
    part = f"{page.label}_quiz.html"
    (folder / part).write_text(parts.quiz(load(path)))
    return (f"\n## Questions {{#{anchor(page, 'questions')}}}\n\nEach answer unfolds what is right "
            f"or wrong about it. In the terminal: `{command}`.\n\n\\htmlinclude[block] {part}\n")


def chapter(text, page, before, folder):
    """Adds to a chapter's page what is generated for it."""
    number = int(page.label[-2:])
    if before.label.startswith("chapter"):
        text = add_diff(text, page, before, folder)
    sections = ""
    own = [entry for entry in exercises() if int(entry.chapter[:2]) == number]
    if own:
        sections += exercise_section(page, own, folder)
    path = quizzes().get(number)
    if path:
        sections += quiz_section(page, path, f"./kv quiz {number}", folder)
    sections += (f"\nWhat the course claims in this chapter, with the outputs that show it: "
                 f"[claims and evidence](@ref evidence-{page.label}).\n")
    return replace_line(text, LEFT_OUT, sections + LEFT_OUT, page.source)


def generate(folder):
    pages_folder, parts_folder, code_folder = folder / "pages", folder / "parts", folder / "code"
    for path in (pages_folder, parts_folder, code_folder):
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
    evidence.write_plots(parts_folder)
    converter = Converter()
    order = [(page.label, title_of(converter.text_of(page), page.source))
             for page in converter.pages]
    for i, page in enumerate(converter.pages):
        # Two files may be called linear.cpp: Doxygen tells them apart by the names that #include takes.
        text = converter.convert(page).replace("\n\\snippet src/", "\n\\snippet ")
        if page.label.startswith("chapter"):
            text = chapter(text, page, converter.pages[i - 1], parts_folder)
        if page.label in ("index", "text_search"):
            text = text.replace("[TOC]\n", "")
        if page.label == "test":
            text += quiz_section(page, ROOT / TEST, "./kv quiz test", parts_folder)
        if page.label == "evidence":
            text += evidence.claims_section(
                {pathlib.PurePath(p.source).parent.name: entry
                 for p, entry in zip(converter.pages, order) if p.label.startswith("chapter")},
                parts_folder)
        before = order[i - 1] if i > 0 else None
        after = order[i + 1] if i + 1 < len(order) else None
        text += navigation(before, after)
        # Doxygen lists pages in the order of their files.
        name = page.label if page.label == "index" else f"{i:02}_{page.label}"
        (pages_folder / f"{name}.md").write_text(text, encoding="utf-8")
    sources.write(ROOT, code_folder)
    (parts_folder / "pass.dot").write_text(calls.graph(ROOT), encoding="utf-8")
    for name, part in converter.parts.items():
        (parts_folder / name).write_text(part, encoding="utf-8")
    for name in converter.linked_files:
        target = folder / "files" / f"{name}.txt"
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, target)


def main():
    try:
        generate(pathlib.Path(sys.argv[1]))
    except (SiteError, CourseError, RecordError, calls.CallError) as error:
        sys.exit(f"site: {error}")


if __name__ == "__main__":
    main()
