"""NodeResourcesFitPlus and ScarceResourceAvoidance: the specification's worked examples, and a profile with both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from koord.api.configuration.scheduler_args import NodeResourcesFitPlusArgs, ScarceResourceAvoidanceArgs
from koord.api.configuration.scheduler_config import parse
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.faults import check
from koord.api.text.yaml import load
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Engine, Profile
from koord.scheduler.framework.plugin import Plugin
from koord.scheduler.plugins.node_resources_fit_plus import NodeResourcesFitPlus
from koord.scheduler.plugins.scarce_resource_avoidance import ScarceResourceAvoidance
from koord.scheduler.profiles import profiles_of
from koord.scheduler.state.cluster import Cluster
from tests.scheduler.build import pod
from tests.scheduler.builders import node
from tests.scheduler.world import judged, put_pod

GPU = "nvidia.com/gpu"
EXAMPLE = Path(__file__).parents[3] / "examples" / "scheduler" / "gpus.yaml"


def plus(**resources: tuple[str, int]) -> NodeResourcesFitPlus:
    named = {GPU if name == "gpu" else name: {"type": type_, "weight": n} for name, (type_, n) in resources.items()}
    return NodeResourcesFitPlus(check(NodeResourcesFitPlusArgs, {"resources": named}, "args"))


def scarce(*names: str) -> ScarceResourceAvoidance:
    return ScarceResourceAvoidance(check(ScarceResourceAvoidanceArgs, {"resources": list(names)}, "args"))


def score(plugin: Plugin, has: dict[str, Any], wanted: Pod, used: dict[str, str] | None = None) -> int:
    """Of a node `n`, with a pod on it that uses something."""
    cluster = Cluster()
    cluster.put_node(node("n", **has))
    engine = Engine(cluster, Profile("s", (plugin,), {plugin.name: 1}))
    if used:
        put_pod(cluster, pod("there", on="n", requests=used))
    return judged(engine, wanted).scores.get(plugin.name, {}).get("n", 0)


CARDS: dict[str, Any] = {"cpu": "64", "memory": "256Gi", "extended": {GPU: "8"}}
USED = {"cpu": "16", "memory": "16Gi", GPU: "4"}


@pytest.mark.parametrize(
    ("plugin", "wanted", "expected"),
    [
        (plus(gpu=("MostAllocated", 2), cpu=("LeastAllocated", 1)), {"cpu": "8", GPU: "2"}, (62 + 2 * 75) // 3),
        (plus(gpu=("MostAllocated", 2), cpu=("LeastAllocated", 1)), {"cpu": "8"}, 62),
        (plus(gpu=("MostAllocated", 2)), {"cpu": "8"}, 100),
        (plus(), {"cpu": "8"}, 100),
        (plus(cpu=("MostAllocated", 1)), {"cpu": "60"}, 100),
        (plus(cpu=("LeastAllocated", 1)), {"cpu": "60"}, 0),
        (plus(**{"example.com/fpga": ("MostAllocated", 1), "cpu": ("LeastAllocated", 1)}), {"cpu": "8"}, 62),
    ],
)
def test_each_resource_scores_by_its_own_rule(
    plugin: NodeResourcesFitPlus, wanted: dict[str, str], expected: int
) -> None:
    assert score(plugin, CARDS, pod("p", requests=wanted), USED) == expected


def test_a_node_that_lacks_a_resource_scores_nothing_for_it() -> None:
    plugin = plus(gpu=("LeastAllocated", 1), cpu=("LeastAllocated", 1))
    assert score(plugin, {"cpu": "64"}, pod("p", requests={"cpu": "16", GPU: "1"})) == 75 // 2


def test_containers_count_in_their_order() -> None:
    """500m and the usual 100m, then 300m beside them from the start, then an init container of 2 that is more."""
    wanted = pod(
        "p",
        containers=[{"name": "a", "resources": {"requests": {"cpu": "500m"}}}, {"name": "b"}],
        initContainers=[
            {"name": "c", "restartPolicy": "Always", "resources": {"requests": {"cpu": "300m"}}},
            {"name": "d", "resources": {"requests": {"cpu": "2"}}},
        ],
    )
    assert score(plus(cpu=("MostAllocated", 1)), {"cpu": "8"}, wanted) == 25


KINDS: dict[str, Any] = {"cpu": "8", "memory": "32Gi", "extended": {GPU: "8", "ephemeral-storage": "100Gi"}}


@pytest.mark.parametrize(
    ("names", "has", "wanted", "expected"),
    [
        ([GPU], KINDS, {"cpu": "1", "memory": "1Gi"}, 50),
        ([GPU], {"cpu": "8", "memory": "32Gi"}, {"cpu": "1", "memory": "1Gi"}, 100),
        ([GPU], KINDS, {"cpu": "1", GPU: "1"}, 100),
        ([GPU], KINDS, {}, 75),
        ([GPU, "ephemeral-storage"], KINDS, {"cpu": "1", "memory": "1Gi"}, 0),
        ([], KINDS, {"cpu": "1"}, 100),
        ([GPU], {"cpu": "8", "memory": "32Gi", "extended": {GPU: "0"}}, {"cpu": "1"}, 100),
        (["pods"], KINDS, {"cpu": "1"}, 100),
    ],
)
def test_nodes_with_scarce_resources_are_left_to_others(
    names: list[str], has: dict[str, Any], wanted: dict[str, str], expected: int
) -> None:
    assert score(scarce(*names), has, pod("p", requests=wanted)) == expected


def test_a_node_that_gets_or_loses_a_resource_scores_anew() -> None:
    cluster = Cluster()
    plugin = scarce(GPU)
    cluster.put_node(node("n", cpu="8", memory="32Gi"))
    engine, wanted = Engine(cluster, Profile("s", (plugin,), {plugin.name: 1})), pod("p", requests={"cpu": "1"})
    told = []
    steps: list[dict[str, str]] = [{}, {GPU: "8"}, {GPU: "0"}, {GPU: "8", "example.com/fpga": "1"}]
    for has in steps:
        cluster.put_node(node("n", cpu="8", memory="32Gi", extended=has))
        told.append(judged(engine, wanted).scores[plugin.name]["n"])
    assert told == [100, 50, 100, 66]


def test_the_example_of_a_profile_packs_gpus_and_spares_gpu_nodes() -> None:
    config = load(EXAMPLE.read_text(), str(EXAMPLE))
    profiles = profiles_of(parse(config))
    assert not any("FitPlus" in warning or "Scarce" in warning for warning in profiles.warnings)
    cluster = Cluster()
    engine = Engine(cluster, profiles.profiles["default-scheduler"])
    for name, cards in (("plain", 0), ("used", 8), ("empty", 8)):
        cluster.put_node(node(name, cpu="64", memory="256Gi", extended={GPU: str(cards)} if cards else {}))
    put_pod(cluster, pod("there", on="used", requests={"cpu": "1", GPU: "4"}))
    assert engine.place(Ask(pod("train", requests={"cpu": "1", GPU: "2"}))).node == "used"
    assert engine.place(Ask(pod("web", requests={"cpu": "1"}))).node == "plain"
