"""Does a command still print what was recorded, up to what differs between machines?

RULES says what may differ. What it masks is masked in the record and in the fresh output; all else,
every count, byte, word and table, must be equal.
"""

import re

# Reason, pattern, replacement. Applied in this order, to one line after the other.
RULES = [
    ("times of a report", r"^(TTFT|TPOT) +[\d.]+ ms$", r"\1 <time>"),
    ("rate of a report", r"^tokens/s +[\d.]+$", "tokens/s <rate>"),
    ("what runs attention; the steps behind the colon stay", r"^(device +)(?!cpu)[^:]*", r"\1<device>"),
    ("threads", r"\b\d+ threads?\b", "<threads>"),
    ("differences by rounding, with other vector widths; bounds stay", r"\b0\.0e\+00|(?<!bound )(?<![\w.])\d(?:\.\d)?e-0[5-9]", "<rounding>"),
    ("the same, written shortly", r"difference +(0|0\.0\d+)(?= \(bound)", "difference <rounding>"),
    ("the measured roofline of this machine", r"^( +this machine) .*", r"\1 <measured>"),
    ("where a race was met first; lines of the source", r"(\(\d+,0,0\)|\(byte \d+\)|\.cuh:\d+)", "<place>"),
    ("sign of a NaN", r"-nan\b", "nan"),
]
# A terminal's plot is drawn from the numbers of the table above it, or from times.
PLOT = re.compile(r"^ *[\d.,]* *[│┤└]")


def cells_of(underline):
    return [match.span() for match in re.finditer("─+", underline)]


def without_columns(lines):
    """The lines with two kinds of columns masked: times, whose heading begins with ms, and sectors a
    load, since compilers differ in which loads they merge."""
    columns, before = [], ""
    for line in lines:
        if re.fullmatch(r"[ ─]+", line) and "─" in line:
            columns = [span for span in cells_of(line)
                       if before[slice(*span)].split()[:1] in (["ms"], ["sectors/load"])]
        elif not line.startswith(" "):
            columns = []
        before = line
        for start, end in reversed(columns):
            if re.fullmatch(r"[\d.,> ]+", line[start:end]):
                line = f"{line[:start]}<masked>{line[end:]}"
        yield line


def masked(output):
    """The lines of an output without what may differ, and without the widths of columns."""
    lines = [line for line in output.split("\n") if not PLOT.match(line)]
    result = []
    for line in without_columns(lines):
        for _, pattern, replacement in RULES:
            line = re.sub(pattern, replacement, line)
        result.append(re.sub(r"─+", "─", " ".join(line.split())))
    return result


def masked_plot(svg, kind):
    """What of a plot must be equal: all of it, or of measured ones title, axes' names and series."""
    svg = re.sub(r"<desc>.*?</desc>\n", "", svg)
    if kind == "counted":
        return svg.split("\n")
    return [text for text in re.findall(r"<text[^>]*>([^<]+)</text>", svg)
            if not re.fullmatch(r"[\d.,⁰¹²³⁴⁵⁶⁷⁸⁹]+", text) and "this machine" not in text]


def first_difference(old, new):
    """The first lines that differ, as a sentence, or None."""
    for number in range(max(len(old), len(new))):
        pair = [lines[number] if number < len(lines) else "(nothing)" for lines in (old, new)]
        if pair[0] != pair[1]:
            pair = [text if len(text) < 200 else text[:200] + "..." for text in pair]
            return f"recorded '{pair[0]}', now '{pair[1]}'"
    return None
