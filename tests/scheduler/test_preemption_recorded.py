"""Whom kube-scheduler has go, the plain reading of the rules has go too, and so does koord."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import pytest

from koord.scheduler.framework.ask import Ask
from tests.control_plane import ControlPlane, find_binary
from tests.scheduler.kube_scheduler import KubeScheduler
from tests.scheduler.plugins.test_default_preemption import engine_with
from tests.scheduler.preemption_recording import FLAGS, Preempted, Recording, read, record, scene
from tests.scheduler.reference.preemption_rules import preempt

FRESH_SEEDS = range(1_000_000, 1_000_012)
NEVER = "preemption: not eligible due to preemptionPolicy=Never."


@cache
def recorded() -> Recording:
    return read()


def difference(seen: Preempted) -> str:
    crowd = scene(seen.seed)
    if crowd.digest() != seen.digest:
        return f"seed {seen.seed} makes another scene: record again"
    pod = next(pod for pod in crowd.pods() if pod.metadata.key == seen.pod)
    remedy = engine_with(crowd).remedy(Ask(pod))
    if pod.spec.preemption_policy == "Never":
        return (
            "" if remedy.message == seen.message == NEVER else f"seed {seen.seed}: {remedy.message}, not {seen.message}"
        )
    rules = preempt(pod, crowd.cluster(), None, crowd.disruption_budgets())
    if seen.node is None:
        same = rules.message == remedy.message == seen.message
        return "" if same else f"seed {seen.seed}: {remedy.message!r}, not {seen.message!r}"
    if seen.node not in rules.best or sorted(rules.candidates[seen.node].keys) != sorted(seen.victims):
        return f"seed {seen.seed}: by the rules {rules}, not {seen.victims} on {seen.node}"
    # Of nodes that are equally good, any may be chosen.
    chosen = remedy.node in rules.best and rules.candidates[str(remedy.node)].keys == remedy.victims
    return "" if chosen else f"seed {seen.seed}: {remedy}, not {seen.victims} on {seen.node}"


def differences(pods: Iterable[Preempted]) -> list[str]:
    return [words for pod in pods if (words := difference(pod))]


def test_victims_are_those_that_kube_scheduler_chose() -> None:
    assert differences(recorded().pods) == []


def test_the_recording_is_of_many_clusters() -> None:
    pods = recorded().pods
    assert recorded().version.startswith("v1.35.")
    assert sum(1 for pod in pods if pod.node) >= 40
    assert sum(1 for pod in pods if len(pod.victims) > 1) >= 10
    assert len({pod.message for pod in pods}) >= 5


@pytest.mark.cluster
@pytest.mark.skipif(find_binary("kube-scheduler") is None, reason="no kube-scheduler")
def test_victims_are_those_that_kube_scheduler_chooses_now() -> None:
    with ControlPlane(*FLAGS) as plane, KubeScheduler(plane) as scheduler:
        seen = [preempted for seed in FRESH_SEEDS if (preempted := record(scheduler, seed)) is not None]
    assert seen
    assert differences(seen) == []
