"""The embedded server answers as the real one did, request by request; and the records are still what the real one
says. With the real one there, sequences that nobody wrote are compared too (test_generated)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.apiserver.differential import records
from tests.apiserver.differential.client import Target
from tests.apiserver.differential.known import KNOWN_DIFFERENCES, unexplained
from tests.apiserver.differential.normal import differences
from tests.apiserver.differential.targets import Failed, embedded, real, run_all

CONCURRENT = 8
SEQUENCES = records.all_sequences()
Answers = dict[str, list[dict[str, Any]] | Failed]

# One worker runs them all, at the same time: most of a sequence is waiting.
pytestmark = pytest.mark.xdist_group("differential")


@pytest.fixture(scope="module")
def embedded_answers(request: pytest.FixtureRequest) -> Answers:
    with embedded() as target:
        return _all_chosen(request, target, "test_the_embedded_server_answers_as_the_real_one")


@pytest.fixture(scope="module")
def real_answers(request: pytest.FixtureRequest) -> Answers:
    """The real server learns of webhooks, roles and definitions a while after it has acknowledged them, and on a busy
    machine that while is long: what differs is asked again, of a fresh server and one sequence at a time."""
    with real() as target:
        answers = _all_chosen(request, target, "test_the_record_is_what_the_real_server_says")
    again = [SEQUENCES[name] for name, answer in answers.items() if _found(name, answer, explained=False)]
    if again:
        with real() as target:
            answers |= asyncio.run(run_all(target, again, concurrent=1))
    return answers


def _all_chosen(request: pytest.FixtureRequest, target: Target, test: str) -> Answers:
    """The answers to the sequences that this run of pytest has chosen, at once."""
    chosen = [
        SEQUENCES[str(item.callspec.params["name"])]
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.originalname == test
    ]
    return asyncio.run(run_all(target, chosen, CONCURRENT))


@pytest.mark.parametrize("name", SEQUENCES)
def test_the_embedded_server_answers_as_the_real_one(name: str, embedded_answers: Answers) -> None:
    _compare(name, embedded_answers[name], explained=True)


@pytest.mark.cluster
@pytest.mark.parametrize("name", SEQUENCES)
def test_the_record_is_what_the_real_server_says(name: str, real_answers: Answers) -> None:
    _compare(name, real_answers[name], explained=False)


def test_there_are_sequences_enough() -> None:
    assert len(SEQUENCES) >= 200


def test_every_known_difference_is_about_a_sequence_that_exists() -> None:
    assert {name for name, _, _ in KNOWN_DIFFERENCES} <= set(SEQUENCES)
    assert all(KNOWN_DIFFERENCES.values())


def _compare(name: str, answers: list[dict[str, Any]] | Failed, *, explained: bool) -> None:
    found = _found(name, answers, explained=explained)
    assert not found, f"{name} differs from the real server\n" + "\n".join(found)


def _found(name: str, answers: list[dict[str, Any]] | Failed, *, explained: bool) -> list[str]:
    if isinstance(answers, Failed):
        return [str(answers)]
    want = records.recorded(SEQUENCES[name])
    found = []
    for index, (left, right) in enumerate(zip(want, answers, strict=True)):
        lines = differences(left, right)
        if explained:
            lines = unexplained(name, index, lines)
        if lines:
            found.append("\n    ".join([f"step {index}: {left['request']}", *lines]))
    return found
