"""A plan for one pod says what the plain reading of the spec says: whether it fits, where, its score, why not."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from koord.api.configuration.scheduler_config import SchedulerConfiguration
from koord.api.kubernetes.pod import Pod
from koord.api.text.manifest import parse
from koord.offline.plan import PodPlan, plan
from koord.scheduler.profiles import profiles_of
from tests.scheduler.build import NOW_S
from tests.scheduler.generate import Scene, random_scene
from tests.scheduler.generate_pod import Manifest
from tests.scheduler.reference import cycle
from tests.scheduler.reference.cluster import Verdict


def planned(scene: Scene, pending: Manifest, pod: Pod) -> PodPlan:
    # It is in the cluster already: these are about placing, whatever admission would say.
    there = {**pending, "metadata": {**pending["metadata"], "uid": "there"}}
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": [*scene.objects, there]})
    profiles = profiles_of(SchedulerConfiguration(profiles=(scene.profile,)))
    return plan(parse(text, "scene"), profiles, now_s=NOW_S).plan.pods[pod.metadata.key]


@pytest.mark.parametrize("seed", range(40))
def test_a_pod_of_a_random_cluster(seed: int) -> None:
    scene = random_scene(seed, stock=True)
    cluster = scene.cluster()
    for pending, pod in zip(scene.pending, scene.pods(), strict=True):
        pod_plan = planned(scene, pending, pod)
        if pod_plan.outcome == "waiting":
            continue
        verdicts = cycle.feasible(pod, cluster, scene.profile)
        candidates = [name for name, verdict in verdicts.items() if verdict]
        if candidates:
            totals = cycle.totals(pod, candidates, cluster, scene.profile)
            assert pod_plan.node in candidates
            assert totals[pod_plan.node] == max(totals.values())
            # A single candidate is not scored by kube-scheduler.
            assert pod_plan.score == totals[pod_plan.node] or len(candidates) == 1
        else:
            assert pod_plan.node is None
            assert pod_plan.nodes_rejected == _counted(verdicts)


def _counted(verdicts: dict[str, Verdict]) -> dict[str, int]:
    def key(plugin: str, reason: str) -> str:
        return f"{plugin}: {reason[:1].lower()}{reason[1:]}"

    return Counter(key(verdict.plugin, reason) for verdict in verdicts.values() for reason in verdict.reasons)
