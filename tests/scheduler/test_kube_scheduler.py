"""The plain reading of the rules agrees with kube-scheduler: with what was recorded of it, and with it live."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from tests.control_plane import ControlPlane, find_binary
from tests.scheduler import recording
from tests.scheduler.compare import differences
from tests.scheduler.generate import random_scene
from tests.scheduler.kube_scheduler import APISERVER_FLAGS, Answer, KubeScheduler, Refusal
from tests.scheduler.profiles import twins
from tests.scheduler.reference import cycle

CHUNKS = 20
FRESH_SEEDS = range(1_000_000, 1_000_008)


@cache
def recorded() -> recording.Recording:
    return recording.read()


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_the_reference_says_what_kube_scheduler_said(chunk: int) -> None:
    found = []
    for scene in recorded().scenes[chunk::CHUNKS]:
        again = random_scene(scene.seed, stock=True)
        assert again.digest() == scene.digest, f"seed {scene.seed} makes another scene: record again"
        cluster = again.cluster()
        for pod, answer in zip(again.pods(), scene.answers, strict=True):
            found += [
                f"seed {scene.seed}, {pod.metadata.name}: {difference}"
                for difference in differences(pod, cluster, again.profile, answer)
            ]
    assert not found, "\n".join(found)


REASONS = {
    "NodeUnschedulable": "node(s) were unschedulable",
    "TaintToleration": "node(s) had untolerated taint(s)",
    "NodeAffinity": "node(s) didn't satisfy plugin(s) [NodeAffinity]",
    "NodePorts": "node(s) didn't have free ports for the requested pod ports",
    "NodeResourcesFit": "Insufficient kubernetes.io/batch-cpu",
    "VolumeRestrictions": "node(s) had no available disk",
    "NodeVolumeLimits": "node(s) exceed max volume count",
    "VolumeBinding": "node(s) didn't find available persistent volumes to bind",
    "VolumeZone": "node(s) had no available volume zone",
    "PodTopologySpread": "node(s) didn't match pod topology spread constraints",
    "InterPodAffinity": "node(s) didn't match pod affinity rules",
}
"""A reason of each filter that a waiting pod can meet."""


def test_the_recording_is_of_many_clusters_and_of_every_plugin() -> None:
    assert recorded().version.startswith("v1.35.")
    assert len(recorded().scenes) >= 300
    answers = [answer for scene in recorded().scenes for answer in scene.answers]
    refused = Counter(reason for answer in answers for refusal in answer.refusals for reason in refusal.reasons)
    assert {plugin: refused[reason] for plugin, reason in REASONS.items() if refused[reason] < 5} == {}
    scored: Counter[str] = Counter()
    for answer in answers:
        scored.update(plugin for plugin, by_node in answer.scores.items() if len(set(by_node.values())) > 1)
    assert {plugin for plugin, pods in scored.items() if pods >= 50} == cycle.SCORES.keys() - {"LoadAwareScheduling"}


def test_a_difference_is_noticed() -> None:
    """The comparison is worth something only if it fails when it should."""
    scene = random_scene(0, stock=True)
    cluster, pod = scene.cluster(), scene.pods()[0]
    feasible = cycle.feasible_nodes(pod, cluster, scene.profile)
    wrong = Answer(tuple(feasible[1:]), {}, tuple(Refusal({"Too many pods": 1}, 1) for _ in twins(scene.profile)))
    assert len(list(differences(pod, cluster, scene.profile, wrong))) >= 3


@pytest.mark.cluster
@pytest.mark.skipif(find_binary("kube-scheduler") is None, reason="no kube-scheduler")
def test_the_reference_says_what_kube_scheduler_says_live() -> None:
    with ControlPlane(*APISERVER_FLAGS) as plane, KubeScheduler(plane) as scheduler:
        for seed in FRESH_SEEDS:
            _, found = recording.record(scheduler, seed)
            assert not found, "\n".join(found)
