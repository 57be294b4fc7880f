"""Scale first: the replacement of a Deployment's pod is ready before the pod goes, single replicas too.

    1  +1 replica, with a record of it on the Deployment, in one write
    2  the new pod uses the reservation on another node, and becomes ready
    3  the old pod gets the lowest deletion cost, and its controller some time to hear of it
    4  -1 replica, and the record goes, in one write: the ReplicaSet removes the old pod

Each step follows from the objects alone, so any process can take the next one. If another user scales the Deployment,
their number stays: only our own +1 is ever taken back, and only while the number is still the one that we wrote. If
something goes wrong, the pod too many is removed and the old pod stays.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.pod_costs import DELETION_COST
from koord.api.kubernetes.workloads import Deployment
from koord.api.protocol.annotations.notice import SCALE_FIRST, SCALED_FIRST, ScaledFirst
from koord.api.text.timestamp import from_seconds, parse_timestamp
from koord.descheduler.evictable import is_available

SETTLE_S: Final = 3.0
"""The controller gets the deletion cost and the number of replicas by two watches: the first gets this much time."""
LOWEST_COST: Final = str(-(2**31))


@dataclass(frozen=True, slots=True)
class Scene:
    """A Deployment with a pod that must be replaced."""

    job: str
    "The uid of the PodMigrationJob."
    deployment: Deployment
    old: Pod | None
    "The pod that must leave; None once it is gone or being deleted."
    replacement: Pod | None
    "The pod that uses the reservation."
    started: bool = False
    "Whether the job has scaled the Deployment."
    is_changing: bool = False
    "Whether the Deployment is rolling out."
    autoscaled: bool = False
    "Whether a HorizontalPodAutoscaler sets its replicas."


@dataclass(frozen=True, slots=True)
class PatchDeployment:
    patch: Mapping[str, Any]
    what: str


@dataclass(frozen=True, slots=True)
class PatchPod:
    patch: Mapping[str, Any]
    what: str


@dataclass(frozen=True, slots=True)
class Wait:
    why: str
    again_s: float | None = None


@dataclass(frozen=True, slots=True)
class EvictOld:
    """The replacement is ready, and no controller will remove the old pod."""


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The old pod stays. What was changed is put back by `undo`."""

    why: str


@dataclass(frozen=True, slots=True)
class Done:
    """The old pod is gone, or going, and our replica is taken back."""


Next: TypeAlias = PatchDeployment | PatchPod | Wait | EvictOld | GiveUp | Done


def is_wanted(deployment: Deployment, *, autoscaled: bool) -> bool:
    """Whether pods of a Deployment are replaced before they go."""
    return SCALE_FIRST.read(deployment.metadata, "Deployment") and not autoscaled


def plan(scene: Scene, now_s: float) -> Next:
    """The next step, once room for the replacement is reserved."""
    deployment, replicas = scene.deployment, scene.deployment.spec.replicas
    record = record_of(deployment)
    if record is not None and record.job != scene.job:
        return Wait(f"another pod of Deployment {deployment.metadata.key} is being replaced")
    if record is None:
        return _without_record(scene, now_s)
    if scene.is_changing:
        return GiveUp(f"Deployment {deployment.metadata.key} is rolling out")
    if replicas != record.to:
        return _scaled_by_others(scene, record)
    if scene.old is None:
        return PatchDeployment(_back(deployment, record.replicas), f"scale back to {record.replicas} replicas")
    if scene.replacement is None or not is_available(scene.replacement):
        return Wait(_awaited(scene))
    if scene.old.metadata.annotations.get(DELETION_COST) != LOWEST_COST or not record.marked:
        return _mark(scene, record, now_s)
    left_s = parse_timestamp(record.marked) + SETTLE_S - now_s
    if left_s > 0:
        return Wait("its controller is told which pod goes", left_s)
    return PatchDeployment(_back(deployment, record.replicas), f"scale back to {record.replicas} replicas")


def undo(deployment: Deployment, job: str) -> Mapping[str, Any] | None:
    """The patch that takes our own replica back; None where there is none. If another user has set the
    number, only the record is removed."""
    record = record_of(deployment)
    if record is None or record.job != job:
        return None
    replicas = deployment.spec.replicas
    return _back(deployment, record.replicas if replicas == record.to else replicas)


def unmark(pod: Pod, record: ScaledFirst | None) -> Mapping[str, Any] | None:
    """The patch that gives a pod that stays its own deletion cost again."""
    if pod.metadata.annotations.get(DELETION_COST) != LOWEST_COST:
        return None
    cost = record.cost if record is not None and record.cost else None
    return {"metadata": {"uid": pod.metadata.uid, "annotations": {DELETION_COST: cost}}}


def record_of(deployment: Deployment) -> ScaledFirst | None:
    return SCALED_FIRST.read(deployment.metadata, "Deployment")


def _without_record(scene: Scene, now_s: float) -> Next:
    """Nothing has started, or everything is done."""
    deployment, replicas = scene.deployment, scene.deployment.spec.replicas
    if scene.old is None:
        return Done()
    if scene.started and scene.replacement is not None and is_available(scene.replacement):
        # The controller is at it, or has removed another pod; the old one is not needed any more.
        return Wait("the ReplicaSet removes it") if _has_too_many(deployment) else EvictOld()
    if scene.started:
        return GiveUp("its replacement is gone")
    if scene.autoscaled:
        return GiveUp(f"a HorizontalPodAutoscaler scales Deployment {deployment.metadata.key}")
    if scene.is_changing:
        return GiveUp(f"Deployment {deployment.metadata.key} is rolling out")
    if _has_too_many(deployment):
        return Wait(f"Deployment {deployment.metadata.key} is scaling down")
    cost = scene.old.metadata.annotations.get(DELETION_COST, "")
    record = ScaledFirst(scene.job, scene.old.metadata.uid, replicas, replicas + 1, from_seconds(now_s), cost=cost)
    patch = {
        "metadata": {
            **_version(deployment),
            "annotations": {SCALED_FIRST.key: SCALED_FIRST.render(record)},
        },
        "spec": {"replicas": replicas + 1},
    }
    return PatchDeployment(patch, f"scale to {replicas + 1} replicas")


def _scaled_by_others(scene: Scene, record: ScaledFirst) -> Next:
    deployment, replicas = scene.deployment, scene.deployment.spec.replicas
    if scene.replacement is not None and is_available(scene.replacement) and replicas >= record.replicas:
        return PatchDeployment(_back(deployment, replicas), f"leave it at {replicas} replicas, as a user has set it")
    return GiveUp(f"a user has set Deployment {deployment.metadata.key} to {replicas} replicas")


def _mark(scene: Scene, record: ScaledFirst, now_s: float) -> Next:
    """The old pod first, then the time after which its controller has probably seen it."""
    old, deployment = scene.old, scene.deployment
    assert old is not None
    if old.metadata.annotations.get(DELETION_COST) != LOWEST_COST:
        patch = {"metadata": {"uid": old.metadata.uid, "annotations": {DELETION_COST: LOWEST_COST}}}
        return PatchPod(patch, "give the old pod the lowest deletion cost")
    marked = ScaledFirst(
        record.job, record.pod, record.replicas, record.to, record.since, from_seconds(math.ceil(now_s)), record.cost
    )
    head = {**_version(deployment), "annotations": {SCALED_FIRST.key: SCALED_FIRST.render(marked)}}
    return PatchDeployment({"metadata": head}, "note that the old pod is marked")


def _back(deployment: Deployment, replicas: int) -> Mapping[str, Any]:
    head = {**_version(deployment), "annotations": {SCALED_FIRST.key: None}}
    return {"metadata": head, "spec": {"replicas": replicas}}


def _version(deployment: Deployment) -> Mapping[str, str]:
    meta = deployment.metadata
    return {"uid": meta.uid, "resourceVersion": meta.resource_version}


def _awaited(scene: Scene) -> str:
    failure = next(
        (condition for condition in scene.deployment.status.conditions if condition.type == "ReplicaFailure"), None
    )
    if scene.replacement is not None:
        return f"{scene.replacement.metadata.key} is not ready"
    if failure is not None and failure.status == "True":
        return f"its replacement cannot be created: {failure.message}"
    return "its replacement is not there yet"


def _has_too_many(deployment: Deployment) -> bool:
    status, meta = deployment.status, deployment.metadata
    return status.replicas > deployment.spec.replicas or meta.generation > status.observed_generation
