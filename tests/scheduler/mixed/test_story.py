"""A random story with all that the scheduler has, judged by its API objects alone.

make explore T=tests/scheduler/mixed/test_story.py SECONDS=600
koord chaos stories --seeds 0:1000
"""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from koord_chaos.stories.play import play


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 2**32))
@example(73).via("a quota has what a reservation lacks for its owner")
@example(560).via("a trial of preemption touches a reservation for which an owner of its quota waits")
@example(776).via("a pod whose quota has nothing but a reservation goes beside it")
@example(840).via("the large member of a gang takes what the others need of their quota")
@example(4990).via("a gang is let go by its quota, and gated before it is tried")
def test_whatever_happens_everybody_gets_what_is_theirs_and_nobody_waits_in_vain(seed: int) -> None:
    play(seed)
