"""What an instructor has decided for a class: course.toml of a student's repository."""

import os
import tomllib

import manifest


def read(root=manifest.ROOT):
    """{} where there is none: in the course itself."""
    path = root / "course.toml"
    if not path.exists():
        return {}
    try:
        return tomllib.loads(path.read_text())
    except tomllib.TOMLDecodeError as error:
        raise manifest.CourseError(f"course.toml: {error}") from error


def seed(root=manifest.ROOT):
    """Of the numbers in the tests: KV_COURSE_SEED, else the class's, else 1."""
    value = os.environ.get("KV_COURSE_SEED", read(root).get("seed", 1))
    try:
        return int(value)
    except (TypeError, ValueError) as error:
        raise manifest.CourseError(f"the seed is a whole number, not {value!r}") from error
