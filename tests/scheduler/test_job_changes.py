"""What would let a job in that does not fit: told only once it was tried out, and nothing stays changed."""

from __future__ import annotations

from koord.scheduler.core.decision import Nowhere
from koord.scheduler.job_changes import changes_for
from tests.scheduler.gangs import World, member


def short(*cpus: int, pods: int = 8, cpu: str = "4") -> tuple[World, Nowhere]:
    world = World(*cpus)
    world.put(*(member(f"p{i}", least=pods, cpu=cpu) for i in range(pods)))
    [decision] = world.decide()
    assert isinstance(decision, Nowhere)
    return world, decision


def test_the_event_says_how_many_fit_what_is_short_and_the_smallest_change() -> None:
    _, decision = short(8, 8, 4)
    assert decision.message.startswith("gang shop/train needs 8 pods at once, 5 fit; short of 3 x (cpu 4). 0/3 nodes")
    assert decision.message.endswith("The smallest change: a minimum of 5 instead of 8.")


def test_more_nodes_like_one_that_is_there_are_told_where_they_would_do() -> None:
    _, decision = short(8, 8, 8, pods=8)
    assert decision.message.endswith("The smallest change: 1 more node like n0.")


def test_all_changes_were_tried_out_and_nothing_stays_changed() -> None:
    world, decision = short(8, 8, 4)
    table = world.core.cluster.table
    before = {name: column.tobytes() for name, column in table.columns.items()}, dict(table.row_of)
    engine = next(iter(world.core.engines.values()))
    assert [job_change.text for job_change in changes_for(engine, decision.asks)] == [
        "a minimum of 5 instead of 8",
        "a request of 2 cpu instead of 4 in each pod",
        "2 more nodes like n0",
    ]
    assert ({name: table.columns[name].tobytes() for name in before[0]}, dict(table.row_of)) == before


def test_a_job_that_no_node_could_ever_take_is_promised_no_more_nodes_of_that_kind() -> None:
    _, decision = short(2, 2, pods=2)
    assert "smallest change" not in decision.message
