"""The records are what the real server says."""

from __future__ import annotations

import asyncio

import pytest

from tests.minicluster.apiserver.differential.against_records import SEQUENCES, Answers, found, of_chosen
from tests.minicluster.apiserver.differential.targets import real, run_all

CONCURRENT = 12
CONCURRENT_AGAIN = 2


@pytest.fixture(scope="module")
def real_answers(request: pytest.FixtureRequest) -> Answers:
    """The real server learns of webhooks, roles and definitions a while after it has acknowledged them, and on a busy
    machine that while is long: what differs is asked again, of a fresh server and few sequences at a time."""
    with real() as target:
        answers = of_chosen(request, target, "test_the_record_is_what_the_real_server_says", CONCURRENT)
    again = [SEQUENCES[name] for name, answer in answers.items() if found(name, answer, explained=False)]
    if again:
        with real() as target:
            answers |= asyncio.run(run_all(target, again, CONCURRENT_AGAIN))
    return answers


@pytest.mark.cluster
@pytest.mark.parametrize("name", SEQUENCES)
def test_the_record_is_what_the_real_server_says(name: str, real_answers: Answers) -> None:
    differing = found(name, real_answers[name], explained=False)
    assert not differing, f"{name} is answered otherwise than it was recorded\n" + "\n".join(differing)
