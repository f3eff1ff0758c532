#!/usr/bin/env python3
"""Holds the machine code of src/kv/cost/measure.cpp to what it is meant to measure.

    tests/test_measure_code.py measure.cpp.o

A compiler that gathers single words, or keeps sums in memory, would measure itself, not the machine,
and no result would look wrong. So one loop multiplies and adds in registers only, and every loop
that loads does nothing but load and add, eight vectors as wide as those. Ends with 4, "skipped",
without objdump and on other processors.
"""
import re
import shutil
import subprocess
import sys

NUM_STREAMS, NUM_LOADS = 4, 8
MULTIPLY_ADD = re.compile(r"v?(fmadd\d+ps|mulps|addps|movaps) +(%[xyz]mm\d+,?)+$")
LOAD = re.compile(r".*\(%.*\),")  # a store ends in its address
LOAD_OR_ADD = re.compile(r"v?(padd[dq]|mov\w+) ")


def loops(listing):
    """The vector instructions of every loop that has no jump inside, when there are enough."""
    for function in listing.split("\n\n"):
        code = re.findall(r"^ *([0-9a-f]+):\s+(.*\S)", function, re.MULTILINE)
        place = {address: i for i, (address, _) in enumerate(code)}
        for end, (_, text) in enumerate(code):
            target = re.match(r"j\w+ +([0-9a-f]+)", text)
            begin = place.get(target[1], end) if target else end
            body = [text for _, text in code[begin:end]]
            vector = [text for text in body if re.search("%[xyz]mm", text)]
            if len(vector) >= NUM_LOADS and not any(text.startswith("j") for text in body):
                yield vector


def widths(loop):
    return set(re.findall("%([xyz])mm", " ".join(loop)))


def main():
    if not shutil.which("objdump"):
        print("skipped: there is no objdump")
        return 4
    listing = subprocess.run(["objdump", "-d", "--no-show-raw-insn", sys.argv[1]],
                             capture_output=True, text=True, check=True).stdout
    if "elf64-x86-64" not in listing:
        print("skipped: this is no code of an x86-64 processor")
        return 4
    found = list(loops(listing))
    adding = [loop for loop in found if all(map(MULTIPLY_ADD.match, loop))]
    loading = [loop for loop in found if any(map(LOAD.match, loop))]
    wrong = [loop for loop in loading if not all(map(LOAD_OR_ADD.match, loop))
             or len(list(filter(LOAD.match, loop))) % NUM_LOADS != 0
             or widths(loop) != widths(sum(adding, []))]
    print(f"{len(adding)} loops multiply and add, {len(loading)} load, {len(wrong)} wrongly")
    for loop in wrong:
        print("\n".join(loop), end="\n\n")
    # A compiler may unroll a loop and leave another for the rest.
    return 0 if len(adding) == 1 and len(loading) >= NUM_STREAMS and not wrong else 1


if __name__ == "__main__":
    sys.exit(main())
