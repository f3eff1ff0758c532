"""settings.py FOLDER: writes what Doxygen is told into FOLDER: its settings and its layout.

Doxygen can put variables into its settings itself, but parts a path that has a space in it.
"""

import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


def settings(variables):
    """The Doxyfile with $(NAME) replaced; what had one is quoted."""
    def word(match):
        expanded = re.sub(r"\$\((\w+)\)", lambda name: variables[name[1]], match[0])
        return f'"{expanded}"'

    text = (HERE / "Doxyfile").read_text(encoding="utf-8")
    return re.sub(r"[^\s\"]*\$\(\w+\)[^\s\"]*", word, text)


def layout(version):
    """The layout; Doxygen 1.9.8 has given the tab of the groups another name."""
    text = (HERE / "layout.xml").read_text(encoding="utf-8")
    numbers = [int(number) for number in re.findall(r"\d+", version)[:3]]
    return text.replace('tab type="modules"', 'tab type="topics"') if numbers >= [1, 9, 8] else text


def main():
    folder = pathlib.Path(sys.argv[1])
    version = subprocess.run(["doxygen", "--version"], capture_output=True, text=True, check=True)
    (folder / "Doxyfile").write_text(settings(os.environ), encoding="utf-8")
    (folder / "layout.xml").write_text(layout(version.stdout), encoding="utf-8")


if __name__ == "__main__":
    main()
