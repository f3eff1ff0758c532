"""Writes what the site shows of the records: the plots, and the page of all claims."""

import html
import re

from records import load, read


def shown_lines(output, patterns):
    """The lines that the patterns match, in their order, with the headings of their tables and, where
    the output has one or more, an empty line between them."""
    lines = output.split("\n")
    wanted = set()
    for number, line in enumerate(lines):
        if any(re.search(pattern, line) for pattern in patterns):
            wanted.add(number)
            wanted.update(heading_of(lines, number))
    shown, last = [], None
    for number in sorted(wanted):
        if last is not None and any(not line.strip() for line in lines[last:number]):
            shown.append("")
        shown.append(lines[number])
        last = number
    return "\n".join(shown)


def heading_of(lines, number):
    """The numbers of the two lines that head the table in which a line is a row, or nothing."""
    for above in range(number - 1, 0, -1):
        if not lines[above].strip():
            break
        if re.fullmatch(r"[ ─]+", lines[above]):
            # A row, as opposed to a sentence below the table, is empty between the columns.
            is_row = all(letter == " " for letter, rule in zip(lines[number], lines[above]) if rule == " ")
            return (above - 1, above) if is_row else ()
    return ()


def unshown(claim, output):
    """The patterns of a claim that no line matches."""
    return [pattern for pattern in claim.shows
            if not any(re.search(pattern, line) for line in output.split("\n"))]


def pre(text):
    return f'<div class="scroll" tabindex="0"><pre class="fragment">{html.escape(text, quote=False)}</pre></div>\n'


def origin(command, record):
    lines = "<br/>".join(f"<code>{html.escape(line)}</code>" for line in command.lines)
    return f"{lines}<br/>{html.escape(record.made)}"


def plot(command):
    """The plot of a command, with where it comes from."""
    record = read(command)
    svg = command.svg_path.read_text(encoding="utf-8")
    return (f'<figure class="plot" tabindex="0">\n{svg}\n<figcaption>{origin(command, record)}</figcaption>\n'
            "</figure>\n")


def claim_part(claim, command):
    record = read(command)
    note = f"<p>{html.escape(claim.note)}</p>\n" if claim.note else ""
    return (f'<div class="claim" id="claim-{claim.id}">\n<p><strong>{html.escape(claim.text)}</strong></p>\n{note}'
            f"<p>{origin(command, record)}</p>\n{pre(shown_lines(record.output, claim.shows))}"
            f'<p><a href="#record-{command.name}">The whole output</a></p>\n</div>\n')


def record_part(command):
    record = read(command)
    head = "".join(f"{word}: {text}\n" for word, text in record.header.items())
    return (f'<details id="record-{command.name}"><summary><code>{html.escape(command.lines[-1])}</code></summary>\n'
            f"{pre(f'{head}{chr(10)}{record.output}')}</details>\n")


def write_plots(folder):
    for command in load().command.values():
        if command.svg:
            (folder / f"plot_{command.name}.html").write_text(plot(command), encoding="utf-8")


def claims_section(chapters, folder):
    """The body of the page. chapters: pairs of a chapter's folder and its page's label and title."""
    evidence, text = load(), ""
    for name, (label, title) in chapters.items():
        claims = [claim for claim in evidence.claim if claim.chapter == name]
        if not claims:
            continue
        part = f"claims_{label}.html"
        (folder / part).write_text("".join(claim_part(claim, evidence.command[claim.command])
                                           for claim in claims), encoding="utf-8")
        text += f"\n## {title} {{#evidence-{label}}}\n\nOn [its page](@ref {label}).\n\n\\htmlinclude[block] {part}\n"
    (folder / "records.html").write_text("".join(map(record_part, evidence.command.values())),
                                         encoding="utf-8")
    return text + "\n## The whole outputs {#evidence-records}\n\n\\htmlinclude[block] records.html\n"
