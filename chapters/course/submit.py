"""Packs what a student has written into the file that is handed in."""

import argparse
import pathlib
import sys
import zipfile

import grade
import manifest

_MOST_BYTES = 1 << 20  # of one file: whoever writes more has put something else into it


def pack(word, folder, root=manifest.ROOT):
    """Writes folder/NN.zip with the student's files of a chapter or an exercise, and nothing else.
    Returns its path and the names in it."""
    chosen = grade.chosen(word, root)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{word or 'all'}.zip"
    names = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for exercise in chosen:
            file = root / exercise.file
            if not file.is_file() or file.is_symlink():
                raise manifest.CourseError(f"{exercise.file} is missing or no plain file")
            if file.stat().st_size > _MOST_BYTES:
                raise manifest.CourseError(f"{exercise.file} has more than {_MOST_BYTES} bytes")
            # A fixed time: the same work makes the same file.
            info = zipfile.ZipInfo(exercise.file, (1980, 1, 1, 0, 0, 0))
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o644 << 16
            archive.writestr(info, file.read_bytes())
            names.append(exercise.file)
    return path, names


def main():
    parser = argparse.ArgumentParser(prog="./kv submit", description=__doc__)
    parser.add_argument("which", metavar="NN or NN_NAME", help="a chapter or an exercise")
    parser.add_argument("--out", default="build/submit", type=pathlib.Path, metavar="FOLDER")
    args = parser.parse_args()
    try:
        path, names = pack(args.which, args.out)
    except (manifest.CourseError, OSError) as error:
        print(f"kv: {error}", file=sys.stderr)
        return 2
    for name in names:
        todo = "KV_TODO();" in (manifest.ROOT / name).read_text(errors="replace")
        print(f"  {name}{'   not done' if todo else ''}")
    print(f"{path}: hand in this file")
    return 0


if __name__ == "__main__":
    sys.exit(main())
