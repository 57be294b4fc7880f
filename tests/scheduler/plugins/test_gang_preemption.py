"""Job-level preemption: a whole job gets its places, or no pod goes for it."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from koord.api.configuration.component_config import PluginConfig
from koord.api.configuration.scheduler_args import CoschedulingArgs
from koord.api.configuration.scheduler_config import SHIPPED
from koord.api.kinds import POD_DISRUPTION_BUDGETS
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.policy import PodDisruptionBudget
from koord.api.machinery.codec import convert
from koord.api.protocol.annotations.notice import CHECKPOINTED_AT
from koord.scheduler.core.decision import Bind, Nowhere
from tests.scheduler.gangs import World, member

CONFIG = replace(
    SHIPPED,
    profiles=(
        replace(
            SHIPPED.profiles[0],
            plugin_config=(PluginConfig("Coscheduling", CoschedulingArgs(enable_preemption=True)),),
        ),
    ),
)


def running(name: str, on: str, *, cpu: str = "1", priority: int = 0, began: str = "", **more: Any) -> Pod:
    labels, saved = more.pop("labels", {}), more.pop("saved", "")
    gang, least = more.pop("gang", ""), more.pop("least", None)
    pod = member(name, gang or name, least=least or 1, on=on, cpu=cpu, priority=priority, phase="Running")
    said = dict(pod.metadata.annotations) if gang else {}
    if saved:
        said[CHECKPOINTED_AT.key] = saved
    status = replace(pod.status, start_time=began or "2026-01-01T00:00:00Z")
    return replace(pod, metadata=replace(pod.metadata, annotations=said, labels=labels), status=status)


def gang(number: int, cpu: str = "1", priority: int = 10, **more: Any) -> list[Pod]:
    return [member(f"m{i}", "urgent", least=number, cpu=cpu, priority=priority, **more) for i in range(number)]


def decision(world: World) -> Nowhere:
    [found] = world.decide()
    assert isinstance(found, Nowhere)
    return found


def victims(found: Nowhere) -> set[str]:
    return {key.partition("/")[2] for move in found.moves for key in move.victims}


def end(world: World, names: set[str]) -> None:
    """Victims are gone."""
    world.delete(*[pod for key, pod in list(world.pods.items()) if key.partition("/")[2] in names])
    world.wait(5)


def test_as_many_go_as_the_whole_job_needs_and_then_it_goes_together() -> None:
    world = World(4, 4, config=CONFIG)
    world.put(*(running(f"low{i}", f"n{i % 2}") for i in range(6)))
    world.put(*gang(4))
    found = decision(world)
    assert len(victims(found)) == 2
    assert {move.pod for move in found.moves} == {f"shop/m{i}" for i in range(4)}
    end(world, victims(found))
    assert set(world.settle()) == {"m0", "m1", "m2", "m3"}


def test_nobody_goes_for_a_job_that_would_not_fit_then_either() -> None:
    world = World(4, config=CONFIG)
    world.put(running("low", "n0"), running("high", "n0", priority=99))
    world.put(*gang(4))
    found = decision(world)
    assert victims(found) == set()
    assert "the job does not fit, whichever less important pods go" in found.message


def test_a_gang_goes_whole_or_not_at_all() -> None:
    world = World(4, 4, config=CONFIG)
    world.put(*(running(f"g{i}", f"n{i % 2}", gang="old", least=4) for i in range(4)))
    world.put(*(running(f"top{i}", f"n{i}", cpu="2", priority=99) for i in range(2)))
    world.put(*gang(1))
    # One place is wanted, and the gang is of no use with three pods: all four go.
    assert victims(decision(world)) == {"g0", "g1", "g2", "g3"}


def test_a_gang_with_a_member_that_must_stay_stays_whole() -> None:
    world = World(4, config=CONFIG)
    world.put(running("g0", "n0", gang="old", least=2, cpu="2"))
    world.put(
        running(
            "g1", "n0", gang="old", least=2, cpu="2", labels={"quota.scheduling.koordinator.sh/preemptible": "false"}
        )
    )
    world.put(*gang(1))
    assert victims(decision(world)) == set()


def test_members_beyond_a_gangs_minimum_go_alone() -> None:
    world = World(4, config=CONFIG)
    world.put(*(running(f"g{i}", "n0", gang="old", least=2) for i in range(4)))
    world.put(*gang(2))
    assert len(victims(decision(world))) == 2


def test_pods_that_say_so_never_go() -> None:
    world = World(1, config=CONFIG)
    world.put(running("stays", "n0", labels={"scheduling.koordinator.sh/disable-preemptible": "true"}))
    world.put(*gang(1))
    assert victims(decision(world)) == set()


def test_victims_are_chosen_by_budget_priority_number_age_and_checkpoint() -> None:
    def chosen(*pods: Pod, budget: str = "") -> set[str]:
        world = World(*[1] * len(pods), config=CONFIG)
        if budget:
            meta = {"name": "b", "namespace": "shop"}
            spec = {"selector": {"matchLabels": {"app": budget}}}
            data = {"metadata": meta, "spec": spec, "status": {"disruptionsAllowed": 0}}
            world.core.put(POD_DISRUPTION_BUDGETS, convert(PodDisruptionBudget, data))
        world.put(*pods, *gang(1))
        return victims(decision(world))

    old, new = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
    assert chosen(running("a", "n0", labels={"app": "kept"}), running("b", "n1", priority=5), budget="kept") == {"b"}
    assert chosen(running("a", "n0", priority=5), running("b", "n1")) == {"b"}
    assert chosen(running("a", "n0", began=old), running("b", "n1", began=new)) == {"b"}
    assert chosen(running("a", "n0", saved=old), running("b", "n1", saved=new)) == {"b"}
    # Who never says so counts as saved when the others began, in the middle.
    assert chosen(running("a", "n0"), running("b", "n1", saved="2025-12-31T00:00:00Z")) == {"a"}
    assert chosen(running("a", "n0"), running("b", "n1", saved="nonsense"), running("c", "n2", saved=new)) == {"c"}


@settings(max_examples=25)
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 2), st.integers(0, 2), st.integers(0, 2)), max_size=8),
    st.lists(st.integers(1, 3), min_size=1, max_size=4),
)
def test_without_arrivals_all_comes_to_rest_and_nobody_goes_in_vain(
    cpus: list[int], pods: list[tuple[int, int, int, int]], members: list[int]
) -> None:
    world = World(*cpus, config=CONFIG)
    free = dict(enumerate(cpus))
    for i, (on, cpu, priority, of) in enumerate(pods):
        on %= len(cpus)
        if free[on] >= cpu:
            free[on] -= cpu
            world.put(
                running(f"low{i}", f"n{on}", cpu=str(cpu), priority=priority, gang=f"g{of}" if of else "", least=2)
            )
    world.put(
        *(member(f"m{i}", "urgent", least=len(members), cpu=str(cpu), priority=2) for i, cpu in enumerate(members))
    )
    went: set[str] = set()
    for _ in range(4):
        gone: set[str] = set()
        for found in world.decide():
            if isinstance(found, Bind):
                world.bind(found)
            elif isinstance(found, Nowhere):
                gone |= victims(found)
        assert not gone or not went, "one round of victims is enough"
        went |= gone
        end(world, gone)
    bound = {pod.metadata.name for pod in world.pods.values() if pod.spec.node_name}
    wanted = {f"m{i}" for i in range(len(members))}
    assert bound & wanted in (set(), wanted)
    if went:
        assert wanted <= bound
    for name in ("g1", "g2"):
        kept = [
            pod
            for pod in world.pods.values()
            if pod.metadata.annotations.get("gang.scheduling.koordinator.sh/name") == name
        ]
        all_ = [i for i, pod in enumerate(pods) if f"g{pod[3]}" == name and f"low{i}" in {*went, *bound}]
        assert len(kept) in (0, len(all_)) or len(kept) >= 2, "half a gang is of no use"
