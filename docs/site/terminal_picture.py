"""terminal_picture.py: makes docs/terminal.svg, the README's picture of a terminal, from what a command
printed when it was recorded (docs/results).

Letters keep to the columns whatever font a reader has, and the dots of the plots (Braille) are drawn.
"""

import html
import re

from records import ROOT, parse_record, record_path

RECORD = record_path("cache")
PICTURE = ROOT / "docs/terminal.svg"
# What is shown of the output: paragraphs that begin so, and how many lines of each at most.
SHOWN = (("First Citizen:", 2), ("Time per token", 99), ("--- report", 99))
COLUMN, LINE, MARGIN = 8, 18, 16  # pixels
BRAILLE = 0x2800
# Where the dots of a Braille letter are, bit by bit, in half columns and quarter lines.
DOTS = ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (0, 3), (1, 3))
STYLE = (".t { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace; "
         "fill: #e6edf3; white-space: pre } .c { fill: #7ee787; font-weight: bold } .d { fill: #9aa4ae } "
         ".p { stroke: #79c0ff; stroke-width: 2.6; stroke-linecap: round }")


def shown_lines(output):
    """The lines of the picture; ⋮ stands for those left out."""
    lines, is_cut = [], False
    for paragraph in re.split(r"\n\n+", output.strip("\n")):
        rows = paragraph.split("\n")
        most = next((most for start, most in SHOWN if rows[0].startswith(start)), 0)
        if most == 0:
            is_cut = True
            continue
        if is_cut and lines:
            lines.append("⋮")
        if lines:
            lines.append("")
        lines += rows[:most]
        is_cut = len(rows) > most
    return lines


def dots(letter, column, row):
    """Path commands for the dots of one Braille letter."""
    bits = ord(letter) - BRAILLE
    for bit, (x, y) in enumerate(DOTS):
        if bits >> bit & 1:
            yield (f"M{MARGIN + (column + x / 2 + 0.25) * COLUMN:g} "
                   f"{MARGIN + (row + y / 4 + 0.125) * LINE:g}h0")


def text(words, column, row, kind="t"):
    x, y = MARGIN + column * COLUMN, MARGIN + row * LINE + 13
    return (f'<text class="{kind}" x="{x}" y="{y}" textLength="{len(words) * COLUMN}" '
            f'lengthAdjust="spacingAndGlyphs">{html.escape(words, quote=False)}</text>')


def picture(text_of_record):
    record = parse_record(text_of_record)
    header = record.header
    command = f"$ {header['command']}"
    foot = ", ".join(header[word] for word in ("machine", "date", "run") if word in header)
    lines = shown_lines(record.output)
    parts, plot = [text(command, 0, 0, "t c")], []
    for row, line in enumerate(lines, 1):
        for match in re.finditer(r"[\u2801-\u28ff]", line):
            plot += dots(match[0], match.start(), row)
        for match in re.finditer(r"[^\s\u2800-\u28ff]+(?: [^\s\u2800-\u28ff]+)*", line):
            parts.append(text(match[0], match.start(), row))
    parts.append(text(foot, 0, len(lines) + 2, "t d"))
    if plot:
        parts.append(f'<path class="p" d="{"".join(plot)}"/>')
    width = 2 * MARGIN + COLUMN * max(map(len, [command, foot, *lines]))
    height = 2 * MARGIN + LINE * (len(lines) + 3)
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img">',
        f"<title>{html.escape(header['command'])}</title>", f"<desc>{html.escape(foot)}</desc>",
        f"<style>{STYLE}</style>",
        f'<rect width="{width}" height="{height}" rx="8" fill="#0d1117" stroke="#57606a"/>', *parts, "</svg>\n"])


def main():
    PICTURE.write_text(picture(RECORD.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
