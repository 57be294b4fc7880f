"""The Kubernetes descheduler's own answers for random clusters, recorded from a build of it, and koord's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import convert
from koord.descheduler.round import run
from tests.descheduler.build import NOW_S, Scene, profile
from tests.descheduler.plugins.upstream_cases import PLUGINS, SEEDS, case

RECORDED: Final[Mapping[str, list[list[str]]]] = json.loads(
    (Path(__file__).parent / "recorded" / "upstream.json").read_text()
)
FREELY: Final = {
    "maxMigratingPerNode": 0,
    "skipEvictionGates": ["MaxMigratingPerWorkload", "MaxUnavailablePerWorkload", "ExpectedReplicas", "NodeFit"],
}
NOWHERE: Final[Mapping[str, frozenset[int]]] = {"RemovePodsViolatingNodeAffinity": frozenset({6, 12, 32})}
"""Cases in which koord moves fewer, since no node takes some of the pods: a pod leaves only for a place."""


@pytest.mark.parametrize("plugin", PLUGINS)
def test_the_same_pods_go(plugin: str) -> None:
    assert len(RECORDED[plugin]) == len(SEEDS)
    for seed, theirs in zip(SEEDS, RECORDED[plugin], strict=True):
        given = case(plugin, seed, NOW_S)
        pods = [convert(Pod, each) for each in given["pods"]]
        finished: dict[str, list[Pod]] = {}
        for each in pods:
            if each.is_finished:
                finished.setdefault(each.spec.node_name, []).append(each)
        nodes = [convert(Node, each) for each in given["nodes"]]
        sight = Scene(nodes, [each for each in pods if not each.is_finished], workloads=[]).sight()
        outcome = run(profile({plugin: given["args"]}, FREELY), replace(sight, finished_on=finished))
        mine = {move.pod.metadata.key for move in outcome.moves}
        if seed in NOWHERE.get(plugin, ()):
            assert mine < set(theirs), (seed, given["args"])
        else:
            assert mine == set(theirs), (seed, given["args"])
