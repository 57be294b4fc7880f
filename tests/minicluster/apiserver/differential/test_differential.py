"""The embedded server answers as the real one did, request by request. That the records are still what the real one
says is for test_records; with the real one there, random sequences are compared too (test_generated)."""

from __future__ import annotations

import asyncio

import pytest

from tests.minicluster.apiserver.differential.against_records import SEQUENCES, Answers, found, of_chosen
from tests.minicluster.apiserver.differential.known import KNOWN_DIFFERENCES
from tests.minicluster.apiserver.differential.targets import embedded, run_all

CONCURRENT = 24


@pytest.fixture(scope="module")
def embedded_answers(request: pytest.FixtureRequest) -> Answers:
    with embedded() as target:
        answers = of_chosen(request, target, "test_the_embedded_server_answers_as_the_real_one", CONCURRENT)
    # Between two steps a definition is established; with many at once the next step may come first.
    again = [SEQUENCES[name] for name, answer in answers.items() if found(name, answer, explained=True)]
    if again:
        with embedded() as target:
            answers |= asyncio.run(run_all(target, again, 1))
    return answers


@pytest.mark.parametrize("name", SEQUENCES)
def test_the_embedded_server_answers_as_the_real_one(name: str, embedded_answers: Answers) -> None:
    differing = found(name, embedded_answers[name], explained=True)
    assert not differing, f"{name} differs from the real server\n" + "\n".join(differing)


def test_there_are_sequences_enough() -> None:
    assert len(SEQUENCES) >= 200


def test_every_known_difference_is_about_a_sequence_that_exists() -> None:
    assert {name for name, _, _ in KNOWN_DIFFERENCES} <= set(SEQUENCES)
    assert all(KNOWN_DIFFERENCES.values())
