"""spelling.py: the words of the pages, figures, exercises, quizzes and headers' comments, by aspell.

The spelling is British. Words that aspell does not know and that are right are in docs/site/words.txt,
one a line, sorted, in small letters unless they are names.

Without aspell it says so and ends with status 4 (skipped); KV_REQUIRE_ASPELL=1 makes that a failure.
"""

import html
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "docs/site")]
from pages import prose_lines  # noqa: E402

WORDS = ROOT / "docs/site/words.txt"
KEYS = {"title", "task", "hints", "text", "why", "name"}  # what a reader sees of those; name: criteria
# What is no prose: code, equations, links' targets, comments and tags, addresses.
NOT_PROSE = re.compile(r"<!--.*?-->|<[^>]+>|\$`.*?`\$|``.*?``|`[^`]*`|\]\([^)]*\)|\b\w+://\S+")
# Identifiers, paths, files, options, numbers with what is joined to them: not words.
NOT_WORDS = re.compile(r"\S*[\w)\]](?:[_/\\=@^<>(\[|]|::|->)\S*|\S*[./_]\w\S*|(?<!\S)--?\w\S*|\S*\d\S*")
WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
COMMENT = re.compile(r"^\s*///?<?(.*)|\s//[/!]?<?(.*)")


def words_of(text):
    """The words of a line of prose; abbreviations in capitals and parts of formulas are none."""
    text = NOT_WORDS.sub(" ", NOT_PROSE.sub(" ", text))
    for word in WORD.findall(text):
        word = word.replace("’", "'").removesuffix("'s")
        if len(word) > 2 and not re.search(r"[A-Z]s?$|\w[A-Z]", word):
            yield word


def page_words(path):
    text = re.sub(r"<!--.*?-->", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    for line, is_prose in prose_lines(text):
        if is_prose:
            yield from words_of(line)


def toml_words(path):
    def texts(value, key):
        if isinstance(value, dict):
            for name, inner in value.items():
                # The name of an exercise is an identifier, that of a criterion a sentence.
                yield from texts(inner, name)
        elif isinstance(value, list):
            for inner in value:
                yield from texts(inner, key)
        elif isinstance(value, str) and key in KEYS:
            yield value

    for text in texts(tomllib.loads(path.read_text(encoding="utf-8")), None):
        yield from words_of(text)


def comment_words(path):
    for line in path.read_text(encoding="utf-8").splitlines():
        found = COMMENT.search(line)
        if found and "//![" not in line.replace(" ", "") and "// namespace" not in line:
            yield from words_of(re.sub(r"\\f\$.*?\\f\$|[\\@]\w+", " ", found[1] or found[2] or ""))


def figure_words(path):
    text = re.sub(r"<style.*?</style>|<[^>]+>", "\n", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    return words_of(html.unescape(text))


READERS = (
    (page_words, ("README.md", "CONTRIBUTING.md", "docs/**/*.md", "chapters/**/*.md")),
    (toml_words, ("chapters/*/exercises.toml", "chapters/*/quiz.toml", "chapters/course/test.toml",
                  "docs/*.toml")),
    (figure_words, ("chapters/*/figures/*.svg",)),
    (comment_words, ("src/kv/**/*.hpp", "kernels/**/*.hpp", "kernels/**/*.cuh", "kernels/**/*.cu")),
)


def places_of_words(root=ROOT):
    """Each word with the files that use it."""
    found = {}
    for reader, places in READERS:
        for path in sorted(path for place in places for path in root.glob(place)):
            for word in reader(path):
                found.setdefault(word, set()).add(str(path.relative_to(root)))
    return found


def unknown(words):
    """Those that aspell's British dictionary does not know."""
    run = subprocess.run(["aspell", "list", "--lang=en_GB", "--encoding=utf-8"], text=True,
                         input="\n".join(sorted(words)) + "\n", capture_output=True, check=True)
    return set(run.stdout.split())


def main():
    if shutil.which("aspell") is None:
        if os.environ.get("KV_REQUIRE_ASPELL"):
            sys.exit("KV_REQUIRE_ASPELL is set, and there is no aspell")
        print("skipped: aspell is not here")
        sys.exit(4)
    known = WORDS.read_text(encoding="utf-8").split() if WORDS.exists() else []
    places = places_of_words()
    wrong = sorted(word for word in unknown(places) if not {word, word.lower()} & set(known))
    faults = [f"{', '.join(sorted(places[word])[:3])}: {word}" for word in wrong]
    if known != sorted(set(known)):
        faults.append("docs/site/words.txt: not sorted, or a word twice")
    print(*faults, f"{len(places)} words, {len(faults)} faults", sep="\n")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
