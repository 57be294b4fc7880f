"""Answers of a server beside the recorded ones, for the tests of both servers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.minicluster.apiserver.differential import records
from tests.minicluster.apiserver.differential.client import Target
from tests.minicluster.apiserver.differential.known import unexplained
from tests.minicluster.apiserver.differential.normal import differences
from tests.minicluster.apiserver.differential.targets import Failed, run_all

SEQUENCES = records.all_sequences()
Answers = dict[str, list[dict[str, Any]] | Failed]


def of_chosen(request: pytest.FixtureRequest, target: Target, test: str, concurrent: int) -> Answers:
    """The answers to the sequences that this run of pytest has chosen, many at once: most of a sequence is waiting."""
    chosen = [
        SEQUENCES[str(item.callspec.params["name"])]
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.originalname == test
    ]
    return asyncio.run(run_all(target, chosen, concurrent))


def found(name: str, answers: list[dict[str, Any]] | Failed, *, explained: bool) -> list[str]:
    """Where the answers differ from the record; with `explained`, without what is meant to differ."""
    if isinstance(answers, Failed):
        return [str(answers)]
    want = records.recorded(SEQUENCES[name])
    made = []
    for index, (left, right) in enumerate(zip(want, answers, strict=True)):
        lines = differences(left, right)
        if explained:
            lines = unexplained(name, index, lines)
        if lines:
            made.append("\n    ".join([f"step {index}: {left['request']}", *lines]))
    return made
