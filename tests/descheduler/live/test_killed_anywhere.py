"""The descheduler, the scheduler and the API server, killed at every step of a move: nothing is lost or left over."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from koord.api.kinds import POD_MIGRATION_JOBS, PODS, RESERVATIONS
from tests.descheduler.live.imagined import REPLICAS, Imagined, is_ready


@settings(max_examples=16)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["", "", "10s"]))
async def test_each_job_ends_once_no_pod_is_lost_and_no_reservation_is_left_over(seed: int, notice: str) -> None:
    story = Imagined(seed, notice)
    await story.live(200)
    await story.come_to_rest()
    server = story.server
    assert server.objects[POD_MIGRATION_JOBS] == {}, "all are over, and forgotten"
    assert story.held_for_nobody == [], "nor while failed jobs are still there"
    ended = [name for name, _ in server.ended]
    assert len(ended) == len(set(ended)), "each once"
    assert server.objects[RESERVATIONS] == {}
    assert sum(map(is_ready, server.objects[PODS].values())) == len(server.objects[PODS]) == REPLICAS
    assert len(server.evicted) == len(set(server.evicted)), "nobody is evicted twice"
    assert story.taken_for_vanished() == set()
    assert story.fewest_ready >= REPLICAS - 1, "the budget holds"
    assert all(left_s <= 0 for left_s in server.deadlines), "nobody goes before its notice is over"
    said = [pod["metadata"].get("annotations", {}) for pod in server.objects[PODS].values()]
    assert all(each == story.said for each in said), "no notice is left over"
