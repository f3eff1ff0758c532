"""settings.py FOLDER: writes what Doxygen is told into FOLDER: its settings and its layout.

Doxygen can put variables into its settings itself, but parts a path that has a space in it.
"""

import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
GROUPS_TAB = ('title="Reference" intro="The code, grouped as its folders are. Each part says what it is '
              'for and which chapters use it."')


def settings(variables):
    """The Doxyfile with $(NAME) replaced; what had one is quoted."""
    def word(match):
        expanded = re.sub(r"\$\((\w+)\)", lambda name: variables[name[1]], match[0])
        return f'"{expanded}"'

    text = (HERE / "Doxyfile").read_text(encoding="utf-8")
    return re.sub(r"[^\s\"]*\$\(\w+\)[^\s\"]*", word, text)


def layout(default):
    """Doxygen's own layout with two changes: the tab of the groups has a name and says what it is
    ("modules", from Doxygen 1.9.8 on "topics"), and a group's page begins with what the group is for
    instead of ending with it."""
    changes = (
        (r'(<tab type="(?:modules|topics)" visible="yes") title="" intro=""', rf'\1 {GROUPS_TAB}'),
        (r'(<group>.*?<briefdescription visible=)"yes"/>(.*?)\n *<detaileddescription title=""/>',
         r'\1"no"/>\n    <detaileddescription title="What it is for"/>\2'),
    )
    for old, new in changes:
        default, count = re.subn(old, new, default, flags=re.DOTALL)
        if count != 1:
            raise SystemExit(f"settings: Doxygen's layout has {count} times {old}")
    return default


def main():
    folder = pathlib.Path(sys.argv[1])
    (folder / "Doxyfile").write_text(settings(os.environ), encoding="utf-8")
    path = folder / "layout.xml"
    subprocess.run(["doxygen", "-l", path], check=True, stdout=subprocess.DEVNULL)
    path.write_text(layout(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
