"""Whatever happens: a gang's minimum or nothing, nothing over-committed, and the same after a restart."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from koord.scheduler.core.decision import Bind
from koord.scheduler.framework.ask import Ask
from koord.scheduler.plugins.gang_rules import why_it_waits
from tests.scheduler.gangs import World, member

CPUS = st.lists(st.integers(1, 4), min_size=1, max_size=4)
POD = st.tuples(st.sampled_from("ab"), st.integers(1, 3), st.sampled_from(["come", "go", "fail", "bind"]))
GROUP = '["shop/a", "shop/b"]'


def requested(world: World) -> list[tuple[int, int]]:
    columns = world.core.cluster.table.columns
    rows = world.core.cluster.table.row_of.values()
    return [(int(columns["requested", "cpu"][row]), int(columns["allocatable", "cpu"][row])) for row in rows]


def picture(world: World) -> dict[str, Any]:
    """All that is known of gangs."""
    return {
        id_: (gang.settings, sorted(gang.members), sorted(gang.bound), sorted(gang.placed))
        for id_, gang in world.gangs.all.items()
    }


@given(CPUS, st.lists(st.integers(1, 3), min_size=1, max_size=8), st.integers(1, 5), st.booleans())
def test_a_group_has_the_minimum_of_every_gang_or_nothing(
    cpus: list[int], members: list[int], least: int, together: bool
) -> None:
    world = World(*cpus)
    for i, cpu in enumerate(members):
        settings: dict[str, Any] = {"groups": GROUP} if together else {}
        world.put(member(f"p{i}", "ab"[i % 2], least=least, cpu=str(cpu), **settings))
    placed = world.settle()
    counts = {gang: sum(1 for name in placed if "ab"[int(name[1:]) % 2] == gang) for gang in "ab"}
    assert all(count == 0 or count >= least for count in counts.values())
    if together:
        assert (counts["a"] == 0) == (counts["b"] == 0)
    assert all(taken <= there for taken, there in requested(world))


@given(CPUS, st.lists(st.integers(1, 3), min_size=2, max_size=6))
def test_a_gang_that_does_not_fit_leaves_the_state_bit_for_bit(cpus: list[int], members: list[int]) -> None:
    world = World(*cpus)
    pods = [member(f"p{i}", least=len(members), cpu=str(cpu)) for i, cpu in enumerate(members)]
    world.put(*pods)
    before = {name: column.tobytes() for name, column in world.core.cluster.table.columns.items()}
    known = picture(world)
    decisions = world.decide()
    if not any(isinstance(decision, Bind) for decision in decisions):
        # Columns may be declared in the meantime.
        columns = world.core.cluster.table.columns
        assert {name: columns[name].tobytes() for name in before} == before
        assert picture(world) == known


@given(CPUS, st.lists(POD, max_size=15), st.integers(1, 3), st.sampled_from(["once-satisfied", "waiting-and-running"]))
def test_a_scheduler_that_starts_in_the_middle_knows_the_same(
    cpus: list[int], story: list[tuple[str, int, str]], least: int, policy: str
) -> None:
    world = World(*cpus)
    for i, (gang, cpu, what) in enumerate(story):
        name = f"p{i % 5}"
        known = world.pods.get(f"shop/{name}")
        if what == "come" and known is None:
            world.put(member(name, gang, least=least, cpu=str(cpu), match_policy=policy))
        elif what == "go" and known is not None:
            world.delete(known)
        elif what in ("fail", "bind"):
            for decision in world.decide():
                if isinstance(decision, Bind):
                    if what == "bind":
                        world.bind(decision)
                    else:
                        for each in decision.members:
                            world.core.failed(decision, each.ask)
        assert all(taken <= there for taken, there in requested(world))
    # Only this scheduler knows what is being bound: it ends first.
    for decision in world.decide():
        if isinstance(decision, Bind):
            world.bind(decision)
    other = World(*cpus)
    for key in sorted(world.pods, reverse=True):
        other.put(world.pods[key])
    assert picture(other) == picture(world)
    for found in world.gangs.all.values():
        waiting = [Ask(world.pods[key]) for key in found.members if not world.pods[key].spec.node_name]
        if waiting:
            assert why_it_waits(other.gangs, waiting) == why_it_waits(world.gangs, waiting)
