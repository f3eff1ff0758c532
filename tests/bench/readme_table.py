#!/usr/bin/env python3
"""Writes the speed table of README.md from the recorded comparisons.

    tests/bench/readme_table.py            rewrites README.md
    tests/bench/readme_table.py --check    fails when README.md is not what the record says
"""
import glob
import json
import os
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
BEGIN = "<!-- speed table: written by tests/bench/readme_table.py -->\n"
END = "<!-- end of speed table -->\n"


def label(key):
    kind, _, depth = key.partition("@")
    behind = "" if depth == "0" else f" behind {int(depth):,} tokens"
    if kind.startswith("prefill"):
        return f"prefill of {kind[len('prefill'):]} tokens{behind}"
    if kind.startswith("batch"):
        return f"decode of {kind[len('batch'):]} sequences together, {depth} tokens each"
    if kind == "recompute":
        return f"chapter 1: a token after {depth}, all recomputed"
    return f"decode{behind or ', empty cache'}"


def ratio(figure):
    return f"{figure['ratio']:.2f} ({figure['ratio_min']:.2f} to {figure['ratio_max']:.2f})"


def rows(record):
    for format_name, figures in record["results"].items():
        for key, figure in figures.items():
            if isinstance(figure, dict) and "llama.cpp" in figure:
                yield (f"| {format_name} | {label(key)} | {figure['ours']:.1f} | "
                       f"{figure['llama.cpp']:.1f} | {ratio(figure)} |\n")
            elif key.startswith("recompute@"):
                yield f"| {format_name} | {label(key)} | {figure:.1f} | | |\n"


def plain_rows(record):
    for format_name, figures in record["results"].items():
        for key, figure in figures.get("plain", {}).items():
            yield (f"| {format_name} | {label(key)} | {figure['plain']:.1f} | {figure['fast']:.1f} | "
                   f"{ratio(figure)} |\n")


def table(paths):
    text = ""
    for path in paths:
        with open(path) as file:
            record = json.load(file)
        text += (f"**{record['isa']}**, {record['threads']} threads of {record['machine']}, "
                 f"{record['date']}, {record['note']} ({record['llama.cpp']}); SmolLM2-135M's shape; tokens per "
                 f"second, medians of {record['rounds']} interleaved rounds:\n\n"
                 "| weights | what | here | llama.cpp | ratio (lowest to highest round) |\n"
                 "|---|---|---:|---:|---:|\n" + "".join(rows(record)) + "\n")
        plain = "".join(plain_rows(record))
        if plain:
            text += ("The same with `--math plain`, beside the fast path:\n\n"
                     "| weights | what | plain | fast | ratio (lowest to highest round) |\n"
                     "|---|---|---:|---:|---:|\n" + plain + "\n")
    return text


def main():
    paths = sorted(glob.glob(os.path.join(ROOT, "tests/bench/results/compare_*.json")))
    if not paths:
        sys.exit("no tests/bench/results/compare_*.json")
    readme = os.path.join(ROOT, "README.md")
    with open(readme) as file:
        text = file.read()
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    wanted = before + BEGIN + "\n" + table(paths) + END + after
    if "--check" in sys.argv[1:]:
        if wanted != text:
            sys.exit("README.md: the speed table is not what tests/bench/results says; "
                     "run tests/bench/readme_table.py")
        return
    with open(readme, "w") as file:
        file.write(wanted)


if __name__ == "__main__":
    main()
