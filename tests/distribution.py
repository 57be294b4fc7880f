"""The order in which test files are given to the workers: the slowest first, by the durations of a recorded run.

A worker gets whole files (`--dist loadfile`), so that a file's fixtures are set up once. Slow files start early, so
that no worker still runs one while the others are idle. To record a run of the whole suite:

    make tests T=--junitxml=/tmp/tests.xml
    .venv/bin/python -m tests.distribution record /tmp/tests.xml
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[1]
DURATIONS = ROOT / "tests" / "durations.json"
LEAST_S = 1
"Files that take less, and files without a record, keep their order after the others."

_durations: dict[str, int] = json.loads(DURATIONS.read_text())


def place_in_the_queue(item: pytest.Item) -> int:
    """The sort key of a test: the duration of its file, the longest first."""
    return -_durations.get(item.nodeid.partition("::")[0], 0)


def recorded(report: Path, before: dict[str, int]) -> dict[str, int]:
    """Seconds by test file, the longest first. Files that the JUnit report does not name keep their record."""
    seconds: defaultdict[str, float] = defaultdict(float)
    for case in ElementTree.parse(report).iter("testcase"):
        if file := _file_of(case.get("classname", "")):
            seconds[file] += float(case.get("time", 0))
    durations = {file: taken for file, taken in before.items() if (ROOT / file).is_file()}
    durations |= {file: round(taken) for file, taken in seconds.items()}
    by_duration = sorted(durations.items(), key=lambda entry: (-entry[1], entry[0]))
    return {file: taken for file, taken in by_duration if taken >= LEAST_S}


def _file_of(class_name: str) -> str:
    """A JUnit class name is a dotted module, and perhaps a class in it."""
    parts = class_name.split(".")
    candidates = ("/".join(parts[:end]) + ".py" for end in range(len(parts), 0, -1))
    return next((file for file in candidates if (ROOT / file).is_file()), "")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["record", report]:
            DURATIONS.write_text(json.dumps(recorded(Path(report), _durations), indent=0) + "\n")
        case _:
            sys.exit("usage: python -m tests.distribution record REPORT.xml")
