"""Random search beyond the fixed examples: `make explore`, never a part of the suite.

All property tests of a file run in a process of their own with a seed of its own, file after file, until the time is
up. Whatever fails is printed with the command that repeats it; there, what hypothesis calls the falsifying example
belongs into the test, as an `@example` that everybody runs.

    python -m tests.explore --seconds 600
    python -m tests.explore tests/scheduler/core/test_events.py --seconds 60
    python -m tests.explore tests/scheduler/core/test_events.py --seed 17        exactly that, once
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from itertools import count

import pytest

LARGEST_SEED = 2**32 - 1
PASSED, FAILED, NOTHING_RAN = 0, 1, 5
"Exit statuses of pytest."


@dataclass(frozen=True)
class Search:
    """Property tests that run together, so that one seed means the same examples each time."""

    where: str
    "A file or one test: what repeats it."
    tests: tuple[str, ...]

    def again(self, seed: int) -> str:
        return f"make explore T='{self.where}' SEED={seed}"


class _Picker:
    def __init__(self) -> None:
        self.found: dict[str, None] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
                self.found[item.nodeid.partition("[")[0]] = None


def searches(where: Sequence[str]) -> list[Search]:
    """The property tests below some paths, by file; a test that is named is a search of its own."""
    picker, printed = _Picker(), StringIO()
    with redirect_stdout(printed):
        status = pytest.main(["--collect-only", "-qq", *where], plugins=[picker])
    if status not in (PASSED, NOTHING_RAN):
        raise SystemExit(f"{printed.getvalue()}\nnothing explored: pytest cannot collect that")
    named = [each for each in where if "::" in each]
    by_file: dict[str, list[str]] = {}
    for test in picker.found:
        spot = next((each for each in named if test.startswith(each.partition("[")[0])), test.partition("::")[0])
        by_file.setdefault(spot, []).append(test)
    return [Search(spot, tuple(tests)) for spot, tests in by_file.items()]


def run(search: Search, seed: int, within_s: float | None) -> tuple[int | None, str]:
    """The exit status of one process of pytest, None where it took longer than it may, and what it printed."""
    options = ["-q", "-x", "-p", "no:cacheprovider", "--hypothesis-profile=explore", f"--hypothesis-seed={seed}"]
    command = [sys.executable, "-m", "pytest", *options, *search.tests]
    surroundings = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=within_s, env=surroundings, check=False)
    except subprocess.TimeoutExpired:
        return None, ""
    return done.returncode, done.stdout + done.stderr


def rounds(all_searches: Sequence[Search], chance: random.Random) -> Iterator[tuple[Search, int]]:
    """Every search again and again, in another order and with another seed each time."""
    for _ in count():
        for search in chance.sample(all_searches, len(all_searches)):
            yield search, chance.randint(0, LARGEST_SEED)


def explore(all_searches: Sequence[Search], seconds: float, jobs: int, chance: random.Random) -> list[str]:
    """Search until the time is up; the commands that repeat what failed."""
    ends_s = time.monotonic() + seconds
    upcoming, failed, done = rounds(all_searches, chance), list[str](), 0
    with ThreadPoolExecutor(jobs) as pool:
        under_way: dict[Future[tuple[int | None, str]], tuple[Search, int]] = {}
        while True:
            while len(under_way) < jobs and (left_s := ends_s - time.monotonic()) > 0:
                search, seed = next(upcoming)
                under_way[pool.submit(run, search, seed, left_s)] = search, seed
            if not under_way:
                break
            for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                search, seed = under_way.pop(future)
                status, output = future.result()
                done += status is not None
                if status not in (PASSED, NOTHING_RAN, None):
                    failed.append(search.again(seed))
                    print(f"{output}\nto repeat it: {failed[-1]}\n", flush=True)
    print(f"{done} searches of {len(all_searches)} files or tests in {seconds:g} s, {len(failed)} failed")
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(prog="make explore", description="Search for examples that break properties.")
    parser.add_argument("where", nargs="*", help="files, folders or tests; by default, everything")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, help="run once with this seed, to repeat a failure")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    found = searches(given.where)
    if not found:
        raise SystemExit("there is no property test to explore")
    if given.seed is not None:
        statuses = []
        for search in found:
            status, output = run(search, given.seed, None)
            print(output)
            statuses.append(status)
        return int(any(status not in (PASSED, NOTHING_RAN) for status in statuses))
    first = random.SystemRandom().randint(0, LARGEST_SEED)
    failed = explore(found, given.seconds, given.jobs, random.Random(first))
    for command in failed:
        print(command)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
