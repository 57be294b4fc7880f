"""The descheduler, the scheduler and the API server, killed at every step of a move: nothing is lost or left over.

The suite tries some fixed stories. KOORD_KILLS=1000 tries others until N processes were killed, with notice and
scale first and without.
"""

from __future__ import annotations

import itertools
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.api.kinds import DEPLOYMENTS, POD_MIGRATION_JOBS, PODS, RESERVATIONS
from koord.api.kubernetes.pod_costs import DELETION_COST
from koord.api.protocol.annotations.notice import SCALED_FIRST
from koord.api.protocol.annotations.reservation import RESERVATION_ALLOCATED
from tests.descheduler.live.imagined import REPLICAS, WEB, Imagined, is_ready

KILLS = int(os.environ.get("KOORD_KILLS", "0"))


async def kills_of(seed: int, notice: str, scale_first: bool, enemy: bool = False) -> int:
    """One story, and what must hold at its end; how many processes were killed in it."""
    story = Imagined(seed, notice, scale_first=scale_first, enemy=enemy)
    await story.live(200)
    await story.come_to_rest()
    if enemy:
        # The clock was put back: what ended before is forgotten that much later.
        await story.come_to_rest()
    server = story.server
    assert server.objects[POD_MIGRATION_JOBS] == {}, "all are over, and forgotten"
    assert story.held_for_nobody == [], "nor while failed jobs are still there"
    ended = [name for name, _ in server.ended]
    assert len(ended) == len(set(ended)), "each once"
    assert enemy or server.late == [], "none waits for a pod that does not come"
    assert server.objects[RESERVATIONS] == {}
    assert sum(map(is_ready, server.objects[PODS].values())) == len(server.objects[PODS]) == REPLICAS
    assert len(server.evicted) == len(set(server.evicted)), "no pod is evicted twice"
    if not enemy:
        assert story.taken_for_vanished() == set()
        assert story.fewest_ready >= (REPLICAS if scale_first else REPLICAS - 1), "the budget holds"
        assert all(left_s <= 0 for left_s in server.deadlines), "no pod goes before its notice is over"
    said = [dict(pod["metadata"].get("annotations", {})) for pod in server.objects[PODS].values()]
    for each in said:
        each.pop(RESERVATION_ALLOCATED.key, None)
        assert each.pop(DELETION_COST, "0") == "0"
    assert all(each == story.said for each in said), "no notice is left over"
    deployment = server.objects[DEPLOYMENTS][WEB]
    assert deployment["spec"]["replicas"] == REPLICAS
    assert SCALED_FIRST.key not in deployment["metadata"].get("annotations", {}), "no replica is left over"
    return story.kills


@settings(max_examples=16)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["", "", "10s"]), st.booleans())
async def test_each_job_ends_once_no_pod_is_lost_and_no_reservation_is_left_over(
    seed: int, notice: str, scale_first: bool
) -> None:
    await kills_of(seed, notice, scale_first)


@settings(max_examples=8)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["", "10s"]), st.booleans())
async def test_neither_if_pods_and_reservations_vanish_and_the_clock_jumps(
    seed: int, notice: str, scale_first: bool
) -> None:
    await kills_of(seed, notice, scale_first, enemy=True)


@pytest.mark.parametrize("seed", [1, 6, 25])
async def test_several_that_know_nothing_of_each_other_keep_to_the_limits_and_move_nobody_twice(seed: int) -> None:
    """Without an election. By these seeds, two let different pods through at once."""
    story = Imagined(seed, deschedulers=3, most_moving=1)
    for _ in range(12):
        story.user()
        story.user()
        await story.live(12)
    await story.come_to_rest()
    assert story.most_at_once == 1
    evicted, ended = story.server.evicted, [name for name, _ in story.server.ended]
    assert len(evicted) == len(set(evicted)) > 1
    assert len(ended) == len(set(ended))
    assert story.server.objects[POD_MIGRATION_JOBS] == story.server.objects[RESERVATIONS] == {}


@pytest.mark.skipif(not KILLS, reason="takes minutes: KOORD_KILLS=1000 says how many")
@pytest.mark.timeout(0)
async def test_however_many_are_killed_nothing_is_lost_or_left_over() -> None:
    killed = 0
    for seed in itertools.count():
        for notice, scale_first, enemy in itertools.product(("", "10s"), (False, True), (False, True)):
            try:
                killed += await kills_of(seed, notice, scale_first, enemy)
            except AssertionError as error:
                error.add_note(f"seed {seed}, notice {notice!r}, scale first: {scale_first}, enemy: {enemy}")
                raise
        if killed >= KILLS:
            return
