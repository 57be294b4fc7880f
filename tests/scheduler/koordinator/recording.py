"""What Koordinator itself said to random questions, kept in one file a subject, so that it can be compared with.

Its functions were compiled from its sources and asked directly. What depends on the order of a map in Go was asked many
times: a case then has several answers, and Koordinator gives all of them.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from koord.api.machinery.struct import Struct
from tests.scheduler.koordinator.known import KNOWN

DATA: Final = Path(__file__).parent / "data"

Question: TypeAlias = dict[str, Any]
Answer: TypeAlias = dict[str, Any]


class Case(Struct):
    question: Question
    answers: tuple[Answer, ...]


class Recording(Struct):
    source: str
    cases: tuple[Case, ...]


def read(subject: str) -> Recording:
    return msgspec.json.decode(gzip.decompress((DATA / f"{subject}.json.gz").read_bytes()), type=Recording)


def unexplained(subject: str, differences: Callable[[Question, Answer], list[str]]) -> list[str]:
    """Where koord says something else than each of Koordinator's answers, and is not known to; and where it is known to
    but does not."""
    known, found = KNOWN[subject], []
    for number, case in enumerate(read(subject).cases):
        fewest = min((differences(case.question, answer) for answer in case.answers), key=len)
        if fewest and number not in known:
            found.append(f"{subject} {number}: {'; '.join(fewest)}")
        elif not fewest and number in known:
            found.append(f"{subject} {number}: no longer differs ({known[number]})")
    return found
