"""Is every number of a page printed by a command that the page names?

Read are prose and tables; left out are equations, code, links and what CITED lists. Whole numbers up to 12
without a unit count things of the text itself and are free. Any other number must stand in the
record of a command that the page names, with the same unit if it has one; a row of a table must stand
in one line of a record, in the same order. What no command prints is an [[exempt]] entry of
docs/evidence.toml, with a reason.
"""

import re
import sys
import pathlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "docs/site"))
from pages import prose_lines  # noqa: E402

FREE = 12
UNIT = r"%|(?:[kMG]B|[KMG]iB|bytes|ms|µs|nats)\b"
WRITTEN = ("%", "kB", "MB", "GB", "KiB", "MiB", "GiB")  # others may stand in the heading of a column
NUMBER = re.compile(rf"\d{{4}}-\d\d-\d\d|(?<![\w.])((?:\d{{1,3}}(?:,\d{{3}})+|\d+)(?:\.\d+)?)(?:\s*({UNIT}))?")
# Names that have numbers in them: papers, chapters, formats, exponents of units, processors.
CITED = re.compile(
    r"(?:et al\.|[A-Z][\w&-]+) (?:19|20)\d\d\b|arXiv:\S+"
    r"|\b(?:[Cc]hapter|[Ss]tep|[Ss]ection|[Ff]igure|[Tt]able|[Aa]lgorithm)s? \d+(?:\.\d+)*(?:(?: to |, | and )\d+(?:\.\d+)*)*"
    r"|\b\d+(?:[- ](?:to|or) \d+)?[- ]bits?\b|\bfp?\d+\b|\bAVX-\d+\b|\b[\w-]+-\d+[Bb]\b")


def plain(number):
    """10,240 and 10240 are one number; so are 80.00 and 80."""
    number = number.replace(",", "")
    return number.rstrip("0").rstrip(".") if "." in number else number


def found_in(text):
    """Pairs of each number, as it is written, and its unit or ''."""
    for match in NUMBER.finditer(text):
        yield (match[1] or match[0]), (match[2] or "")


def is_free(number, unit):
    return not unit and number.isdigit() and int(number) <= FREE


def words_of(text):
    """Text without what is no running text."""
    text = re.sub(r"\$`.*?`\$|`[^`]*`|<!--.*?-->|<[^<>]*>", " ", text, flags=re.DOTALL)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    return CITED.sub(" ", " ".join(text.split()))


def blocks_of(page):
    """The page's rows of tables and its paragraphs, each with the number of its first line."""
    paragraph, first = [], 0
    for number, (line, is_prose) in enumerate(prose_lines(page), 1):
        is_row = is_prose and line.startswith("|")
        if is_row or not is_prose or not line.strip():
            if paragraph:
                yield first, "\n".join(paragraph), False
            paragraph = []
        if is_row:
            yield number, line, True
        elif is_prose and line.strip():
            first = first if paragraph else number
            paragraph.append(line)
    if paragraph:
        yield first, "\n".join(paragraph), False


def is_in_order(wanted, line):
    """Are the numbers among those of the line, in the same order?"""
    rest = iter([number for number, _ in found_in(line)])
    return all(number in rest for number in wanted)


class Records:
    """What the records of some commands say."""

    def __init__(self, texts):
        self.lines = [line for text in texts for line in text.split("\n")]
        self.paragraphs = [part for text in texts for part in text.split("\n\n")]
        self.numbers = {plain(n) for text in texts for n, _ in found_in(text)}
        self.with_units = {(plain(n), unit) for text in texts for n, unit in found_in(text)}

    def has(self, number, unit):
        if unit in WRITTEN:
            return (plain(number), unit) in self.with_units
        return plain(number) in self.numbers

    def has_row(self, numbers, code):
        if code:  # such a row tells of several lines
            return any(all(f"[{ids}]" in part for ids in code) and
                       set(numbers) <= {n for n, _ in found_in(part)}
                       for part in self.paragraphs)
        return any(is_in_order(numbers, line) for line in self.lines)


def faults(page, texts, exempt=()):
    """What is wrong with a page, a line each. texts: the records of the commands that it names."""
    records, allowed = Records(texts), {plain(number) for number in exempt}
    for place, block, is_row in blocks_of(page):
        numbers = list(found_in(words_of(block)))
        strict = [(n, unit) for n, unit in numbers if not is_free(n, unit) and plain(n) not in allowed]
        code = re.findall(r"`(\d+(?: \d+)+)`", block) if is_row else []
        if is_row and (strict or code):
            if not records.has_row([n for n, _ in numbers if plain(n) not in allowed], code):
                yield f"line {place}: no line of a record has this row: {block}"
        else:
            for number, unit in strict:
                if not records.has(number, unit):
                    yield f"line {place}: {number}{' ' * bool(unit)}{unit} is in no record of a command that the page names"


def rounds_to(number, words):
    """Is `words` the number rounded to as many digits as `words` has? 171.8 is 172, 79.4 is 80."""
    digits = words.replace(",", "").replace(".", "").strip("0") or "0"
    if "." in words:
        digits = words.replace(",", "").replace(".", "").lstrip("0")
    return float(f"{float(plain(number)):.{max(len(digits), 1) - 1}e}") == float(plain(words))


def claim_faults(text, output):
    """The numbers of a claim that none of the output rounds to, with the same unit where it has one."""
    printed = {pair for pair in found_in(output) if "-" not in pair[0]}
    for words, unit in found_in(words_of(text)):
        if not is_free(words, unit) and not any(
                rounds_to(number, words) and (unit not in WRITTEN or unit == with_unit)
                for number, with_unit in printed):
            yield words


def needless(page, texts, exempt):
    """The exempt numbers that the page does not have, or that a record has."""
    records = Records(texts)
    there = {plain(n): (n, unit) for _, block, is_row in blocks_of(page) if not is_row
             for n, unit in found_in(words_of(block))}
    for number in exempt:
        if plain(number) not in there or records.has(*there[plain(number)]):
            yield number
