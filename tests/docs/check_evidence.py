"""check_evidence.py: pages, claims and records agree.
check_evidence.py BIN: what the programs in BIN print now agrees with the records."""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "docs/site")]
import fresh_runs  # noqa: E402
import page_numbers  # noqa: E402
from evidence import unshown  # noqa: E402
from pages import page_list  # noqa: E402
from records import ROOT, RecordError, load, named_by, read, record_path  # noqa: E402
from run_command import missing_program, run  # noqa: E402


def page_faults(source, page, evidence, record_of=read):
    """What is wrong with one chapter's page."""
    named = named_by(page, evidence)
    exempt = [number for entry in evidence.exempt if entry.page == source for number in entry.numbers]
    texts = [record_of(command).text for command in named]
    for command in named:
        if command.fastest_of > 1:  # times: whose, and when
            header = record_of(command).header
            for words in (header["machine"].split(",")[0], header["date"]):
                if words not in " ".join(page.split()):
                    yield f"{source}: the times of {command.name} are those of {words}, which is not said"
    for fault in page_numbers.faults(page, texts, exempt):
        yield f"{source}: {fault}"
    for number in page_numbers.needless(page, texts, exempt):
        yield f"{source}: {number} is exempt without need"


def record_faults(evidence, record_of=read):
    for claim in evidence.claim:
        output = record_of(evidence.command[claim.command]).output
        for pattern in unshown(claim, output):
            yield f"claim {claim.id}: no line of {claim.command} has '{pattern}'"
        for number in page_numbers.claim_faults(claim.text, output):
            yield f"claim {claim.id}: {claim.command} does not print its {number}"


def all_faults():
    evidence = load()
    yield from record_faults(evidence)
    pages = {page.source: (ROOT / page.source).read_text(encoding="utf-8") for page in page_list()
             if page.label.startswith("chapter")}
    for source, page in pages.items():
        yield from page_faults(source, page, evidence)
    used = {command.name for page in pages.values() for command in named_by(page, evidence)}
    for name in evidence.command.keys() - used:
        yield f"command {name}: no chapter's page names it"
    kept = {command.name for command in evidence.command.values()}
    for path in record_path("x").parent.iterdir():
        if path.stem not in kept:
            yield f"{path.name}: no command of this name"


def fresh_faults(programs):
    if all(missing_program(command, programs) for command in load().command.values()):
        print(f"no program of the course is in {programs}")
        sys.exit(4)  # skipped
    for command in load().command.values():
        missing = missing_program(command, programs)
        if missing:
            print(f"{command.name}: skipped, this build has no {missing}")
            continue
        output, svg = run(command, programs)
        differences = [fresh_runs.first_difference(fresh_runs.masked(read(command).output),
                                                   fresh_runs.masked(output))]
        if svg:
            differences.append(fresh_runs.first_difference(
                fresh_runs.masked_plot(command.svg_path.read_text(encoding="utf-8"), command.svg),
                fresh_runs.masked_plot(svg, command.svg)))
        for difference in filter(None, differences):
            yield f"{command.name}: {difference}; docs/site/record.py records it anew"


def main():
    try:
        found = list(fresh_faults(pathlib.Path(sys.argv[1]).resolve()) if sys.argv[1:] else all_faults())
    except RecordError as error:
        found = [str(error)]
    for fault in found:
        print(fault)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
