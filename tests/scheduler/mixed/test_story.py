"""A random story with all that the scheduler has, judged by its API objects alone.

make explore T=tests/scheduler/mixed/test_story.py SECONDS=600
koord chaos stories --seeds 0:1000
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koord_chaos.stories.features import FIRST
from koord_chaos.stories.play import play


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 2**32))
def test_whatever_happens_everybody_gets_what_is_theirs_and_nobody_waits_in_vain(seed: int) -> None:
    play(seed)


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(73, id="a quota has what a reservation lacks for its owner"),
        pytest.param(560, id="a trial of preemption touches a reservation for which an owner of its quota waits"),
        pytest.param(776, id="a pod whose quota has nothing but a reservation goes beside it"),
        pytest.param(840, id="the large member of a gang takes what the others need of their quota"),
        pytest.param(4990, id="a gang is let go by its quota, and gated before it is tried"),
    ],
)
def test_seeds_that_broke_a_promise_of_the_first_features_break_none(seed: int) -> None:
    play(seed, FIRST)
