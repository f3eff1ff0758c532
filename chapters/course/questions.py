"""Reads the questions of the chapters and of the test, and says what is wrong with them."""

import dataclasses
import tomllib

from manifest import ROOT, CourseError

TEST = "chapters/course/test.toml"
NUM_TEST_QUESTIONS = 22
MIN_QUIZ_QUESTIONS = 5
LETTERS = "abcd"


@dataclasses.dataclass(frozen=True)
class Option:
    text: str
    correct: bool
    why: str  # it is right or wrong


@dataclasses.dataclass(frozen=True)
class Question:
    chapter: int
    text: str
    options: tuple  # three or four, one of them right

    @property
    def right(self):
        """Index of the right option."""
        return [option.correct for option in self.options].index(True)

    def shuffled(self, random):
        """The same question with its options in another order."""
        options = random.sample(self.options, len(self.options))
        return dataclasses.replace(self, options=tuple(options))


def _table(entry, keys, where):
    if not isinstance(entry, dict):
        raise CourseError(f"{where}: is not a table")
    for key in keys:
        if key not in entry:
            raise CourseError(f"{where}: '{key}' is missing")
    for key in entry:
        if key not in keys:
            raise CourseError(f"{where}: unknown key '{key}'")
    return entry


def _text(entry, key, where):
    text = " ".join(entry[key].split()) if isinstance(entry[key], str) else ""
    if not text:
        raise CourseError(f"{where}: '{key}' is not a text, or an empty one")
    return text


def _list(entry, key, where):
    if not isinstance(entry[key], list) or not entry[key]:
        raise CourseError(f"{where}: '{key}' is no list, or an empty one: write [[{key}]]")
    return entry[key]


def _option(entry, where):
    entry = _table(entry, ("text", "correct", "why"), where)
    if not isinstance(entry["correct"], bool):
        raise CourseError(f"{where}: 'correct' is neither true nor false")
    return Option(_text(entry, "text", where), entry["correct"], _text(entry, "why", where))


def _question(entry, chapter, where):
    keys = ("text", "option") if chapter is not None else ("chapter", "text", "option")
    entry = _table(entry, keys, where)
    if chapter is None:
        chapter = entry["chapter"]
        if type(chapter) is not int:
            raise CourseError(f"{where}: 'chapter' is not a number")
    entries = _list(entry, "option", where)
    if not 3 <= len(entries) <= len(LETTERS):
        raise CourseError(f"{where}: {len(entries)} options; 3 or 4 are wanted")
    options = tuple(_option(o, f"{where}, option {i}") for i, o in enumerate(entries, 1))
    num_right = sum(option.correct for option in options)
    if num_right != 1:
        raise CourseError(f"{where}: {num_right} options are right; exactly one is wanted")
    for key in ("text", "why"):
        if len({getattr(option, key) for option in options}) < len(options):
            raise CourseError(f"{where}: two options have the same '{key}'")
    return Question(chapter, _text(entry, "text", where), options)


def quizzes(root=ROOT):
    """The files of the chapters that have a quiz, by number of the chapter."""
    return {int(path.parent.name[:2]): path
            for path in sorted(root.glob("chapters/[0-9][0-9]_*/quiz.toml"))}


def load(path, root=ROOT):
    """The questions of one file.

    Raises CourseError, one line with file and question, when one of them cannot be asked.
    """
    name = path.relative_to(root)
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CourseError(f"{name}: {error.strerror}") from error
    except ValueError as error:  # not TOML, or not UTF-8
        raise CourseError(f"{name}: {error}") from error
    entries = _list(_table(data, ("question",), name), "question", name)
    chapter = int(path.parent.name[:2]) if path.name == "quiz.toml" else None
    return [_question(entry, chapter, f"{name}: question {number}")
            for number, entry in enumerate(entries, 1)]


def _giveaways(questions):
    """How the right option could be guessed without reading the question."""
    half = len(questions) / 2
    for position, letter in enumerate(LETTERS):
        count = sum(question.right == position for question in questions)
        if count > half:
            yield f"{count} of {len(questions)} right options are {letter}"
    for extreme, word in ((max, "longest"), (min, "shortest")):
        count = 0
        for question in questions:
            lengths = [len(option.text) for option in question.options]
            own = lengths[question.right]
            count += own == extreme(lengths) and lengths.count(own) == 1
        if count > half:
            yield f"the right option is the {word} in {count} of {len(questions)} questions"


def faults(root=ROOT):
    """What is wrong with the quizzes and the test, a line each."""
    found, first = [], {}
    known = quizzes(root)
    for path in [*known.values(), root / TEST]:
        name = path.relative_to(root)
        try:
            questions = load(path, root)
        except CourseError as error:
            found.append(str(error))
            continue
        if path == root / TEST and len(questions) != NUM_TEST_QUESTIONS:
            found.append(f"{name}: {len(questions)} questions; {NUM_TEST_QUESTIONS} are wanted")
        if len(questions) < MIN_QUIZ_QUESTIONS:
            found.append(f"{name}: {len(questions)} questions; {MIN_QUIZ_QUESTIONS} are the least")
        found += [f"{name}: {fault}" for fault in _giveaways(questions)]
        for number, question in enumerate(questions, 1):
            where = f"{name}: question {number}"
            if question.chapter not in known:
                found.append(f"{where}: chapter {question.chapter} has no quiz.toml")
            before = first.setdefault(question.text.casefold(), where)
            if before != where:
                found.append(f"{where}: has the text of {before}")
    return found
