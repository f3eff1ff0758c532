"""own_program.py same|differs PROGRAM OWN: whether OWN, the chapter's PROGRAM with functions of an
exercise linked in, prints all that PROGRAM prints but for the times, or another text."""

import re
import subprocess
import sys

outcome, *programs = sys.argv[1:]
arguments = ["--prompt", "ROMEO: what say you", "--tokens", "40", "--compare", "0"]
printed = [subprocess.run([program, *arguments], check=True, capture_output=True, text=True).stdout
           for program in programs]
texts = [re.split("\n\nWork up to|\n\n--- report", out)[0] for out in printed]
without_times = [re.sub(r" *[\d,]*\.\d+", " TIME", out) for out in printed]
print(*printed, sep="\n======\n")
if outcome == "same":
    sys.exit(without_times[0] != without_times[1])
sys.exit(texts[0] == texts[1])
