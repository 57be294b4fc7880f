"""After any history, no CPU belongs to two pods, and what is counted is what pods say of themselves."""

from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from koord.api.protocol.annotations.cpu import CPU_TOPOLOGY, CPUTopology
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.cells import Many, One
from koord.scheduler.plugins.numa.allocation import Allocation, held_by
from koord.scheduler.plugins.numa.allocations import TAKEN, Allocations
from koord.scheduler.plugins.numa.judge import NUMAJudge
from koord.scheduler.state.table import Row
from tests.scheduler.plugins.numa.machines import World, big, bound, details, pod, report

POLICY_LABEL, BIND_LABEL = "node.koordinator.sh/numa-topology-policy", "node.koordinator.sh/cpu-bind-policy"
_SHAPES = ["1x2x2x2", "2x1x2x2", "1x1x4x1", "1x2x3x1"]
_LABELS = [
    {},
    {POLICY_LABEL: "SingleNUMANode"},
    {POLICY_LABEL: "Restricted"},
    {POLICY_LABEL: "BestEffort", BIND_LABEL: "SpreadByPCPUs"},
]
_SPECS = [
    None,
    {"requiredCPUBindPolicy": "FullPCPUs"},
    {"requiredCPUBindPolicy": "SpreadByPCPUs"},
    {"preferredCPUBindPolicy": "SpreadByPCPUs", "preferredCPUExclusivePolicy": "PCPULevel"},
    {"preferredCPUExclusivePolicy": "NUMANodeLevel"},
]
_steps = st.lists(
    st.tuples(
        st.sampled_from(["bind", "bind", "share", "single", "go", "flap", "restart", "retell"]), st.integers(0, 59)
    ),
    min_size=4,
    max_size=14,
)


def fresh(nodes: dict[str, tuple[Any, Any]], pods: dict[str, Any]) -> World:
    """A scheduler that starts with everything there."""
    world = World()
    for node, topology in nodes.values():
        world.put(node, topology)
    for each in pods.values():
        ask = Ask(each)
        record = replace(ask.record(0.0), notes=world.cluster.noted(each))
        world.cluster.place(record, world.cluster.table.row_of[each.spec.node_name])
    return world


@settings(max_examples=20)
@given(st.sampled_from(_SHAPES), st.sampled_from(_LABELS), _steps)
def test_any_history_counts_what_pods_say(shape: str, labels: dict[str, str], steps: list[tuple[str, int]]) -> None:
    nodes = {name: (big(name, "8", labels=labels), report(name, shape, memory="4Gi")) for name in ("n1", "n2")}
    world, pods = fresh(nodes, {}), dict[str, Any]()
    for i, (step, number) in enumerate(steps):
        name = f"p{i}"
        if step in ("bind", "share", "single"):
            cpus = str(1 + number % 4)
            policy = {"numaTopologyPolicy": "SingleNUMANode"} if step == "single" else None
            spec = _SPECS[number % len(_SPECS)]
            binds = step == "bind" or number % 2
            ask = bound(name, cpus, spec=spec, numa=policy) if binds else pod(name, cpus, numa=policy)
            if world.engine.place(ask).node is not None:
                pods[ask.key] = world.bound_pod(ask)
        elif step == "go" and pods:
            gone = sorted(pods)[number % len(pods)]
            world.cluster.remove_pod(gone)
            del pods[gone]
        elif step == "flap":
            node, topology = nodes["n1"]
            for key in list(world.cluster.pods_on[world.cluster.table.row_of["n1"]]):
                del pods[key]
            world.cluster.remove_node("n1")
            world.put(node, topology)
        elif step == "retell":
            world.remove_report(nodes["n2"][1])
            world.put_report(nodes["n2"][1])
        elif step == "restart":
            world = fresh(nodes, pods)
    _no_cpu_twice(pods)
    _promises_are_kept(world)
    _same(world, fresh(nodes, pods))
    _sums(world, pods)


def _no_cpu_twice(pods: dict[str, Any]) -> None:
    taken: dict[str, int] = {}
    for each in pods.values():
        held = held_by(each)
        cpus = 0 if held is None else held.cpus
        assert not taken.get(each.spec.node_name, 0) & cpus
        taken[each.spec.node_name] = taken.get(each.spec.node_name, 0) | cpus


def _promises_are_kept(world: World) -> None:
    """No NUMA node gives more than it has, and no CPUs span one that a pod keeps."""
    for state in world.cluster.notes(Allocations).on.values():
        for zone, has in state.facts.zones.items():
            assert all(state.charged(zone, name) <= amount for name, amount in has.items())
            assert not (state.kept.get(zone) and state.spanning.get(zone))


def _same(one: World, other: World) -> None:
    for name in one.cluster.table.row_of:
        rows = [world.cluster.table.row_of[name] for world in (one, other)]
        states = [world.cluster.notes(Allocations).on[row] for world, row in zip((one, other), rows, strict=True)]
        assert states[0] == states[1]
        assert _cells(one, rows[0]) == _cells(other, rows[1])


def _cells(world: World, row: Row) -> dict[str, Any]:
    own = {repr(name): column for name, column in world.cluster.table.columns.items() if "numa" in repr(name)}
    return {name: column.item(row) for name, column in own.items()}


def _sums(world: World, pods: dict[str, Any]) -> None:
    """What is taken of NUMA nodes is the sum of what annotations say, of pods that say it."""
    for name, row in world.cluster.table.row_of.items():
        for column, cells in world.cluster.table.columns.items():
            if isinstance(column, tuple) and column[0] == TAKEN:
                assert cells.item(row) == sum(
                    _said(world, held, row, column[1], column[2])
                    for pod in pods.values()
                    if pod.spec.node_name == name and (held := held_by(pod)) is not None
                )


def _said(world: World, held: Allocation, row: Row, zone: int, resource: str) -> int:
    if held.zones:
        return dict(dict(held.zones).get(zone, ())).get(resource, 0)
    topology = world.cluster.notes(Allocations).on[row].facts.topology
    assert topology is not None
    return (topology.nodes[zone] & held.cpus).bit_count() * 1000 if resource == "cpu" else 0


@settings(max_examples=20)
@given(
    st.sampled_from(["1x2x2x2", "1x3x2x1"]),
    st.sampled_from(["SingleNUMANode", "Restricted"]),
    st.lists(st.integers(1, 3), max_size=3),
    st.integers(1, 6),
    st.booleans(),
)
def test_a_numa_policy_refuses_only_what_no_set_of_numa_nodes_can_give(
    shape: str, policy: str, before: list[int], wanted: int, is_bound: bool
) -> None:
    world = World()
    world.put(big("n1", "64", labels={POLICY_LABEL: policy}), report("n1", shape, memory="8Gi"))
    for i, cpus in enumerate(before):
        world.engine.place(bound(f"b{i}", str(cpus)) if i % 2 else pod(f"b{i}", f"{cpus * 700}m"))
    (state,) = world.cluster.notes(Allocations).on.values()
    left = {zone: has["cpu"] - state.charged(zone, "cpu") for zone, has in state.facts.zones.items()}
    if is_bound:
        topology = state.facts.topology
        assert topology is not None
        free = {zone: (topology.nodes[zone] & state.available).bit_count() for zone in left}
        left = {zone: min(free[zone], number // 1000) * 1000 for zone, number in left.items()}
    most = 1 if policy == "SingleNUMANode" else len(left)
    possible = any(
        all(left[zone] > 0 for zone in some) and sum(left[zone] for zone in some) >= wanted * 1000
        for size in range(1, most + 1)
        for some in combinations(left, size)
    )
    ask = bound("p", str(wanted)) if is_bound else pod("p", str(wanted))
    assert (world.engine.place(ask).node is not None) == possible


@settings(max_examples=10)
@given(st.lists(st.sampled_from(["bind", "share", "single"]), min_size=1, max_size=8))
def test_rows_are_judged_alike_one_by_one_and_together(kinds: list[str]) -> None:
    """Scores and verdicts of a class that saw everything happen, and of one that looks once at all rows."""
    world = World()
    for i in range(14):
        labels = _LABELS[i % 3]
        world.put(big(f"n{i}", "8", labels=labels), report(f"n{i}", _SHAPES[i % len(_SHAPES)], memory="4Gi"))
    asks: dict[str, Callable[[str], Ask]] = {
        "bind": lambda name: bound(name, "2"),
        "share": lambda name: pod(name, "1500m"),
        "single": lambda name: pod(name, "2", numa={"numaTopologyPolicy": "SingleNUMANode"}),
    }
    for i, kind in enumerate(kinds):
        world.engine.place(asks[kind](f"p{i}"))
    for kind, make in asks.items():
        ask = make(f"last-{kind}")
        pod_class, new = world.engine.class_of(ask), world.engine.judged_alone(ask)
        rows = sorted(world.cluster.nodes)
        assert [pod_class.is_feasible(row) for row in rows] == [new.is_feasible(row) for row in rows]
        assert [pod_class.scores(row) for row in rows] == [new.scores(row) for row in rows]
        judge = world.numa.compile(ask, world.cluster)
        assert isinstance(judge, NUMAJudge)
        columns = world.cluster.table.columns
        together = judge.formulas.choice(Many(columns, np.array(rows)), len(rows))
        for i, row in enumerate(rows):
            alone = judge.formulas.choice(One(columns, row), 1)
            assert alone.fits[0].tolist() == together.fits[i].tolist()
            assert alone.scores[0].tolist() == together.scores[i].tolist()
            assert {name: each[0].tolist() for name, each in alone.lacking.items()} == {
                name: each[i].tolist() for name, each in together.lacking.items()
            }
        many = judge.score(Many(columns, np.array(rows)))
        assert [judge.score(One(columns, row)) for row in rows] == many.tolist()
        verdicts = np.broadcast_to(judge.feasible(Many(columns, np.array(rows))), len(rows))
        assert [int(judge.feasible(One(columns, row))) for row in rows] == verdicts.tolist()


def test_a_hole_in_the_numbers_of_cpus_is_no_obstacle() -> None:
    """CPUs 2 and 5 are offline: their siblings are no whole cores."""
    kept = tuple(cpu_info for cpu_info in details("1x2x2x2") if cpu_info.id not in (2, 5))
    text = CPU_TOPOLOGY.render(CPUTopology(kept))
    world = World()
    world.put(big("n1", "6"), report("n1", "1x2x2x2", annotations={CPU_TOPOLOGY.key: text}))
    assert world.place(bound("p", "2", spec=_SPECS[1])).cpuset == "0-1"
    assert world.place(bound("q", "2", spec=_SPECS[1])).cpuset == "6-7"
    assert world.why_not(bound("r", "2", spec=_SPECS[1])) == {"not enough cpus available to satisfy request": 1}
    assert world.place(bound("s", "2")).cpuset == "3-4"
