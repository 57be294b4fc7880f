"""Spreading and affinity under random clusters and events: always what the plain reading of the rules says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from koord.api.configuration.component_config import PluginArgs
from koord.api.configuration.scheduler_args import InterPodAffinityArgs, PodTopologySpreadArgs
from koord.api.machinery.faults import check
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.plugin import Plugin
from koord.scheduler.plugins.inter_pod_affinity import InterPodAffinity
from koord.scheduler.plugins.pod_topology_spread import PodTopologySpread
from koord.scheduler.state import counts
from koord.scheduler.state.cluster import Cluster
from tests.scheduler.generate import random_cluster
from tests.scheduler.plugins.neighbours import Story, alone, differences, feed

LISTED = {
    "defaultingType": "List",
    "defaultConstraints": [
        {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"},
        {"maxSkew": 2, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"},
        {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule"},
    ],
}


def spread(**args: Any) -> tuple[Plugin, PluginArgs]:
    made = check(PodTopologySpreadArgs, args, "args")
    return PodTopologySpread(made), made


def affinity(**args: Any) -> tuple[Plugin, PluginArgs]:
    made = check(InterPodAffinityArgs, args, "args")
    return InterPodAffinity(made), made


PLUGINS = {
    "spread": spread(),
    "spread by a list": spread(**LISTED),
    "affinity": affinity(),
    "affinity, hard terms weigh much": affinity(hardPodAffinityWeight=50),
    "affinity, terms of others ignored": affinity(ignorePreferredTermsOfExistingPods=True, hardPodAffinityWeight=0),
}


@pytest.mark.parametrize("which", PLUGINS)
@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1 << 30))
def test_verdicts_reasons_and_scores_are_those_of_the_rules(which: str, seed: int) -> None:
    plugin, args = PLUGINS[which]
    plain, pods = random_cluster(seed)
    engine = alone(feed(plain), plugin)
    for pod in pods:
        assert list(differences(engine, plugin, pod, plain, args)) == []


@pytest.mark.parametrize("which", PLUGINS)
@settings(max_examples=15, deadline=None)
@given(st.integers(0, 1 << 30))
def test_what_is_kept_up_to_date_is_what_the_rules_say_after_any_events(which: str, seed: int) -> None:
    plugin, args = PLUGINS[which]
    plain, pods = random_cluster(seed)
    story = Story(plain, pods, seed)
    engine = alone(story.cluster, plugin)
    for _ in range(12):
        for _ in range(seed % 5 + 1):
            story.event()
        for pod in pods:
            assert list(differences(engine, plugin, pod, story.plain, args)) == []


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1 << 30))
def test_undone_placements_leave_no_trace_in_counts_and_verdicts(seed: int) -> None:
    plain, pods = random_cluster(seed)
    cluster = feed(plain)
    engines = [(alone(cluster, plugin), plugin, args) for plugin, args in PLUGINS.values()]
    for engine, _, _ in engines:
        for pod in pods:
            engine.class_of(Ask(pod)).feasible_rows()
    before = tallies(cluster)
    with cluster.transaction() as transaction:
        for i, pod in enumerate([*pods, *plain.placed_pods()[:5]]):
            placed = replace(pod, metadata=replace(pod.metadata, name=f"more-{i}"))
            cluster.place(Ask(placed).record(), i % len(plain.nodes))
        for pod in plain.placed_pods()[5:10]:
            cluster.remove_pod(pod.metadata.key)
        for engine, _, _ in engines:
            for pod in pods:
                engine.class_of(Ask(pod)).feasible_rows()
        transaction.undo()
    assert tallies(cluster) == before
    for engine, plugin, args in engines:
        for pod in pods:
            assert list(differences(engine, plugin, pod, plain, args)) == []


def tallies(cluster: Cluster) -> dict[Any, Any]:
    kept = cluster.counts
    rows = range(cluster.table.capacity)
    found: dict[Any, Any] = {name: [selection.at(row) for row in rows] for name, selection in kept._selections.items()}
    held = {name: [tally.at(row) for row in rows] for name, tally in kept._tallies.items() if tally.total}
    return found | held


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 1 << 30))
def test_who_lags_behind_a_short_log_sums_up_anew(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Groups are then numbered otherwise, also where as many are left as there were."""
    monkeypatch.setattr(counts, "LONGEST_LOG", 2)
    plain, pods = random_cluster(seed)
    story = Story(plain, pods, seed)
    engines = [(alone(story.cluster, plugin), plugin, args) for plugin, args in PLUGINS.values()]
    for _ in range(8):
        for _ in range(seed % 8 + 1):
            story.place()
            story.remove()
        for engine, plugin, args in engines:
            for pod in pods:
                assert list(differences(engine, plugin, pod, story.plain, args)) == []
