"""The command line of the differential suite; see the package."""

from __future__ import annotations

import asyncio
import fnmatch
import sys
import time

from tests.minicluster.apiserver.differential import records
from tests.minicluster.apiserver.differential.known import unexplained
from tests.minicluster.apiserver.differential.normal import differences
from tests.minicluster.apiserver.differential.steps import Sequence
from tests.minicluster.apiserver.differential.targets import Failed, embedded, real, run_all, version_of

CONCURRENT = 8


def main() -> int:
    mode, *names = sys.argv[1:] or ["check"]
    chosen = [
        sequence
        for name, sequence in records.all_sequences().items()
        if not names or any(fnmatch.fnmatch(name, pattern) for pattern in names)
    ]
    started = time.monotonic()
    with real() if mode in ("record", "real") else embedded() as target:
        answers = asyncio.run(run_all(target, chosen, CONCURRENT))
        version = asyncio.run(version_of(target)) if mode == "record" else ""
    broken = {name: answer for name, answer in answers.items() if isinstance(answer, Failed)}
    for name, failure in broken.items():
        print(f"{name}: {failure}")
    if mode == "record":
        good = {name: answer for name, answer in answers.items() if not isinstance(answer, Failed)}
        for name, steps in good.items():
            for step in steps:
                if "never" in step.get("ended", ""):
                    print(f"{name}: {step['request']}: {step['ended']}: {str(step['body'])[:300]}")
        records.write(good, version)
        print(f"{len(good)} sequences recorded in {time.monotonic() - started:.1f} s")
        return 1 if broken else 0
    bad = sum(_report(sequence, answers[sequence.name]) for sequence in chosen)
    print(f"{len(chosen) - bad} of {len(chosen)} sequences agree; {time.monotonic() - started:.1f} s")
    return 1 if bad else 0


def _report(sequence: Sequence, answers: object) -> bool:
    if isinstance(answers, Failed):
        return True
    assert isinstance(answers, list)
    try:
        want = records.recorded(sequence)
    except records.Stale as stale:
        print(stale)
        return True
    bad = False
    for index, (left, right) in enumerate(zip(want, answers, strict=True)):
        found = unexplained(sequence.name, index, differences(left, right))
        if found:
            print(f"{sequence.name}[{index}] {left['request']}")
            for line in found:
                print(f"    {line}")
            bad = True
    return bad


if __name__ == "__main__":
    sys.exit(main())
