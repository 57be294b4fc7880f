"""Members of a job that look alike go where they would have gone one at a time."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from koord.api.configuration.scheduler_config import SHIPPED, SchedulerConfiguration, parse
from koord.api.kinds import NODE_METRICS, NODES
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import convert
from koord.scheduler.core.core import Core
from koord.scheduler.core.moment import Moment
from koord.scheduler.framework import job_placing
from koord.scheduler.framework.alike import merged
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Engine
from koord.scheduler.framework.groups import NEVER
from koord.scheduler.framework.placement import Placement
from koord.scheduler.profiles import profiles_of
from koord.scheduler.state.pods import PodRecord
from koord.scheduler.state.table import Row
from tests.scheduler.build import NOW_S, metric, pod_usage


def config(strategy: str) -> SchedulerConfiguration:
    """Kubernetes' own plugins, with a rule for scores by amounts."""
    args = {"scoringStrategy": {"type": strategy, "resources": [{"name": "cpu", "weight": 3}, {"name": "memory"}]}}
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return parse({**head, "profiles": [{"pluginConfig": [{"name": "NodeResourcesFit", "args": args}]}]})


CONFIGS = [SHIPPED, config("LeastAllocated"), config("MostAllocated")]
CHAINS = st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=6), max_size=6)
TAINTS = [[], [{"key": "old", "effect": "PreferNoSchedule"}], [{"key": "own", "effect": "NoSchedule"}]]
NODES_ = st.tuples(
    st.integers(1, 9), st.integers(1, 9), st.sampled_from([0, 0, 0, 1, 2]), st.sampled_from([0, 0, 3, 8])
)
"Cores, GiB, taints, and the cores that are measured to be used, where there is a report: 8, of a member too."
MEMBERS = st.tuples(st.integers(1, 12), st.integers(1, 3), st.integers(0, 2), st.booleans())
"How many, the cores and GiB of each, and whether they tolerate taints."


@given(CHAINS, st.integers(1, 20))
def test_chains_are_merged_as_one_at_a_time(chains: list[list[int]], number: int) -> None:
    totals = [[value * 10 + row for value in chain] for row, chain in enumerate(chains)]

    def after(rows: Any, pods: Any) -> Any:
        return np.array([[*totals[row], *[NEVER] * 99][n] for row, n in zip(rows, pods, strict=True)], np.int64)

    expected: list[int] = []
    taken = [0] * len(chains)
    while len(expected) < number:
        heads = [(chain[taken[row]], row) for row, chain in enumerate(totals) if taken[row] < len(chain)]
        if not heads:
            break
        row = max(heads)[1]
        expected.append(row)
        taken[row] += 1
    firsts = np.array([chain[0] for chain in totals], np.int64)
    assert merged(np.arange(len(chains)), firsts, number, after).tolist() == expected


def cluster(which: int, nodes: list[tuple[int, int, int, int]]) -> Engine:
    core = Core(profiles_of(CONFIGS[which]), alone=True, now=Moment(NOW_S, NOW_S))
    for i, (cores, memory, taints, used) in enumerate(nodes):
        has = {"cpu": str(cores), "memory": f"{memory}Gi", "pods": "5"}
        images = [{"names": ["train:1"], "sizeBytes": 10**9}] if i % 2 else []
        data = {
            "metadata": {"name": f"n{i}"},
            "spec": {"taints": TAINTS[taints]},
            "status": {"allocatable": has, "images": images},
        }
        core.put(NODES, convert(Node, data))
        if used:
            seen = [pod_usage("p0-1", {"cpu": "1"}, namespace="shop")] if used == 8 else []
            core.put(NODE_METRICS, metric(f"n{i}", usage={"cpu": str(used), "memory": "1Gi"}, pods=seen))
    return next(iter(core.engines.values()))


def job(parts: list[tuple[int, int, int, bool]], name: str = "p") -> list[Ask]:
    asks = []
    for i, (number, cores, memory, tolerates) in enumerate(parts):
        container = {
            "name": "c",
            "image": "train:1",
            "resources": {"requests": {"cpu": cores, "memory": f"{memory}Gi"}},
        }
        spec = {"containers": [container], "tolerations": [{"operator": "Exists"}] if tolerates else []}
        for n in range(number):
            meta = {
                "name": f"{name}{i}-{n}",
                "namespace": "shop",
                "uid": f"{name}{i}-{n}",
                "labels": {"index": str(n)} if i % 2 else {},
            }
            asks.append(Ask(convert(Pod, {"metadata": meta, "spec": spec})))
    return asks


def decided(
    monkeypatch: pytest.MonkeyPatch, few: int, which: int, nodes: Any, parts: Any, least: int
) -> tuple[list[Placement], dict[str, tuple[PodRecord, Row]], dict[Any, bytes]]:
    monkeypatch.setattr(job_placing, "FEW_ALIKE", few)
    engine = cluster(which, nodes)
    asks = job(parts)
    placements = [
        *engine.place_all(asks, at_least=min(least, len(asks))),
        *engine.place_all(job([(3, 1, 1, False)], "q")),
    ]
    columns = engine.cluster.table.columns
    return placements, dict(engine.cluster.pods), {name: column.tobytes() for name, column in columns.items()}


@settings(max_examples=40)
@example(0, [(1, 1, 0, 0)] * 3, [(2, 1, 2, False), (1, 1, 0, False), (1, 1, 0, False)], 4)
@given(
    st.integers(0, 2),
    st.lists(NODES_, min_size=1, max_size=6),
    st.lists(MEMBERS, min_size=1, max_size=3),
    st.integers(1, 24),
)
def test_members_that_look_alike_get_the_places_of_one_at_a_time(
    which: int, nodes: Any, parts: Any, least: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        together = decided(patch, 2, which, nodes, parts, least)
        assert together == decided(patch, 1 << 30, which, nodes, parts, least)


def test_members_that_differ_in_their_names_only_are_looked_at_once_under_the_shipped_configuration() -> None:
    engine = cluster(0, [(4, 4, 0, 0)])
    first = job([(1, 1, 1, False)])[0]
    engine.class_of(first)
    assert engine.has_twins(first)


def test_members_of_one_class_that_say_different_things_are_noted_one_by_one() -> None:
    engine = cluster(0, [(32, 64, 0, 0)] * 4)
    asks = job([(8, 1, 1, False)])
    said = [{"gang.scheduling.koordinator.sh/name": f"g{i % 2}"} for i in range(8)]
    asks = [
        Ask(replace(ask.pod, metadata=replace(ask.meta, annotations=annotations)))
        for ask, annotations in zip(asks, said, strict=True)
    ]
    assert len({id(engine.class_of(ask)) for ask in asks}) == 1
    engine.place_all(asks)
    noted = [engine.cluster.pods[ask.key][0].note("Coscheduling") for ask in asks]
    assert noted == [f"shop/g{i % 2}" for i in range(8)]


def test_a_thousand_alike_members_look_at_five_thousand_nodes_once() -> None:
    engine = cluster(0, [(32, 64, 0, 0)] * 5000)
    engine.place_all(job([(8, 4, 8, False)]))
    # The first ones have their places already, and get others.
    asks = job([(1000, 4, 8, False)])
    before = engine.bodies_run
    began = time.thread_time()
    placed = engine.place_all(asks)
    took_s = time.thread_time() - began
    assert all(placement.node for placement in placed)
    # Each node by each plugin for the class, once.
    assert engine.bodies_run - before <= 10 * 5000
    assert took_s < 0.1
