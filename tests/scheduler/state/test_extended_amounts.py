"""A node that only lends more or less: the short way to the state ends where the long way does."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from koord.api.configuration.scheduler_config import SHIPPED
from koord.api.kinds import NODES
from koord.api.kubernetes.node import Node
from koord.api.machinery.codec import convert
from koord.scheduler.core.core import Core
from koord.scheduler.core.events import node_event
from koord.scheduler.plugins.quota.quotas import Quotas
from koord.scheduler.profiles import profiles_of
from koord.scheduler.state.extended_amounts import changed_extended
from koord.scheduler.state.table import Reason

LENT = ("kubernetes.io/batch-cpu", "kubernetes.io/batch-memory", "koordinator.sh/gpu-core", "example.com/fpga")
BATCH_CPU = frozenset({"kubernetes.io/batch-cpu"})
amounts = st.dictionaries(st.sampled_from(LENT), st.one_of(st.integers(0, 50_000), st.sampled_from(["3k", "7"])))


def node(name: str, more: dict[str, Any], cpu: str = "8", **metadata: Any) -> Node:
    has = {"cpu": cpu, "memory": "32Gi", "pods": "110", **more}
    return convert(Node, {"metadata": {"name": name, **metadata}, "status": {"allocatable": has, "capacity": has}})


def core_with(*nodes: Node) -> Core:
    core = Core(profiles_of(SHIPPED), alone=True, hints=False)
    for item in nodes:
        core.put(NODES, item)
    return core


def state_of(core: Core) -> dict[Any, Any]:
    table = core.cluster.table
    rows = [table.row_of[name] for name in sorted(table.row_of)]
    columns = {name: np.asarray(table.columns[name])[rows].tolist() for name in table.columns if name != "name hash"}
    quotas = core.cluster.noting[Quotas.name]
    assert isinstance(quotas, Quotas)
    total = {name: amount for name, amount in quotas._allocatable.items() if amount}
    return {"columns": {name: values for name, values in columns.items() if any(values)}, "quotas": total}


@settings(max_examples=40, deadline=None)
@given(changes=st.lists(st.tuples(st.sampled_from(["n1", "n2"]), amounts), min_size=1, max_size=6))
def test_lent_figures_that_change_one_by_one_end_where_the_last_ones_begin(
    changes: list[tuple[str, dict[str, Any]]],
) -> None:
    nodes = {name: node(name, {}) for name in ("n1", "n2")}
    core = core_with(*nodes.values())
    for name, more in changes:
        old, nodes[name] = nodes[name], node(name, more)
        core.put(NODES, nodes[name], old)
    assert state_of(core) == state_of(core_with(*nodes.values()))
    for name, kept in nodes.items():
        row = core.cluster.table.row_of[name]
        assert core.cluster.nodes[row].status.allocatable == kept.status.allocatable


def test_only_extended_resources_go_the_short_way() -> None:
    old = node("n1", {"kubernetes.io/batch-cpu": 1000})
    assert changed_extended(old, node("n1", {"kubernetes.io/batch-cpu": 2000})) == BATCH_CPU
    assert changed_extended(old, node("n1", {})) == BATCH_CPU
    assert changed_extended(old, node("n1", {"kubernetes.io/batch-cpu": 1000})) == frozenset()
    for other in (
        node("n1", {"kubernetes.io/batch-cpu": 2000}, cpu="9"),
        node("n1", {"kubernetes.io/batch-cpu": 2000}, labels={"a": "b"}),
        node("n1", {"kubernetes.io/batch-cpu": 2000}, annotations={"a": "b"}),
        node("n1", {"koordinator.sh/batch-cpu": 2000}),
        replace(old, spec=replace(old.spec, unschedulable=True)),
    ):
        assert changed_extended(old, other) is None


def test_a_grown_resource_wakes_pods_and_a_shrunken_one_does_not() -> None:
    old, more = node("n1", {"kubernetes.io/batch-cpu": 1000}), node("n1", {"kubernetes.io/batch-cpu": "2k"})
    event = node_event(old, more)
    assert event is not None
    assert (event.reasons, event.grown) == (int(Reason.ALLOCATABLE), BATCH_CPU)
    assert node_event(more, old) is None
    assert node_event(old, node("n1", {"kubernetes.io/batch-cpu": "1k"})) is None
