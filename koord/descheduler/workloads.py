"""How many pods a workload should have, and how many of them may be away at once.

A pod's workload is its controller; a ReplicaSet's is its Deployment, so that a rollout counts as one. For kinds
that koord does not know, the caller provides the number of replicas (from the API's scale subresource).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from koord.api import kinds
from koord.api.kinds import Kind
from koord.api.kubernetes.meta import ObjectMeta, OwnerReference
from koord.api.kubernetes.pod import FINISHED, Pod
from koord.api.kubernetes.workloads import Deployment, Job, ReplicaSet, ReplicationController, StatefulSet
from koord.api.protocol.annotations.notice import SCALE_FIRST
from koord.api.text.whole_number import whole_number

Known: TypeAlias = Deployment | ReplicaSet | StatefulSet | ReplicationController | Job
CountOrPercent: TypeAlias = int | str
Change: TypeAlias = Literal["", "is rolling out", "is scaling down", "has not been seen by its controller yet"]

KINDS: Final[tuple[Kind[Any], ...]] = (
    kinds.DEPLOYMENTS,
    kinds.REPLICA_SETS,
    kinds.STATEFUL_SETS,
    kinds.REPLICATION_CONTROLLERS,
    kinds.JOBS,
)
"""Of `Known`."""

_KIND_OF: Final[Mapping[type, tuple[str, str]]] = {
    Deployment: ("apps", "Deployment"),
    ReplicaSet: ("apps", "ReplicaSet"),
    StatefulSet: ("apps", "StatefulSet"),
    ReplicationController: ("", "ReplicationController"),
    Job: ("batch", "Job"),
}


@dataclass(frozen=True, slots=True)
class Workload:
    """What makes some pods."""

    kind: str
    key: str
    uid: str
    replicas: int
    "What limits are a part of: how many pods it should have, a Job as many as its parallelism."
    wanted: int
    "How many pods it should have now: a Job that is nearly done has fewer than its parallelism."
    change: Change = ""
    "What keeps its pods where they are until it is over."
    scales_first: bool = False
    "Whether its pods are replaced before they go."


@dataclass(slots=True)
class Workloads:
    """Every workload by its uid, with its pods."""

    by_uid: dict[str, Workload] = field(default_factory=dict)
    above: dict[str, str] = field(default_factory=dict)
    "Of a ReplicaSet, the uid of its Deployment."
    pods: dict[str, list[Pod]] = field(default_factory=dict)
    "By the uid of the workload; those that are not finished."
    below: dict[str, list[str]] = field(default_factory=dict)
    "The uids of a Deployment's ReplicaSets."
    has_all_pods: bool = False
    "Whether a pod that is not listed does not exist. Files may simply not include it."
    unavailable: dict[str, frozenset[str]] = field(default_factory=dict)
    "The pods that are not ready, by workload that was looked up."

    def of(self, pod: Pod) -> Workload | None:
        """The workload of a pod; None where it has none, or none that is known."""
        uid = self.uid_of(pod)
        return None if uid is None else self.by_uid.get(uid)

    def uid_of(self, pod: Pod) -> str | None:
        owner = pod.metadata.controller
        return None if owner is None else self.above.get(owner.uid, owner.uid)

    def siblings(self, pod: Pod) -> list[Pod]:
        """The pods of the same workload, itself included."""
        uid = self.uid_of(pod)
        return [] if uid is None else self.pods.get(uid, [])

    def owners(self, uid: str) -> tuple[str, ...]:
        """The uids that controllers of a workload's pods may have: its own, and those of its ReplicaSets."""
        return (uid, *self.below.get(uid, ()))


def workloads_of(
    objects: Iterable[Known],
    pods: Iterable[Pod],
    scales: Mapping[str, int] | None = None,
    *,
    has_all_pods: bool = False,
) -> Workloads:
    """`scales`: replicas of workloads of other kinds, by uid. `has_all_pods`: these workloads have no other pods."""
    workloads = Workloads(has_all_pods=has_all_pods)
    for workload_object in objects:
        workload = workload_from(workload_object)
        workloads.by_uid[workload.uid] = workload
        above = _deployment(workload_object.metadata) if isinstance(workload_object, ReplicaSet) else None
        if above is not None:
            workloads.above[workload.uid] = above.uid
            workloads.below.setdefault(above.uid, []).append(workload.uid)
    above_of, by_uid, pods_of, said = workloads.above.get, workloads.by_uid, workloads.pods, scales or {}
    for pod in pods:
        # All pods of a cluster come by here in every round.
        owner = pod.metadata.controller
        if owner is None or pod.status.phase in FINISHED:
            continue
        uid = above_of(owner.uid, owner.uid)
        siblings = pods_of.get(uid)
        if siblings is not None:
            siblings.append(pod)
            continue
        pods_of[uid] = [pod]
        if uid not in by_uid and uid in said:
            by_uid[uid] = scaled(owner, pod.metadata.namespace, said[uid])
    return workloads


def workload_from(workload_object: Known) -> Workload:
    kind, meta = _KIND_OF[type(workload_object)][1], workload_object.metadata
    first = isinstance(workload_object, Deployment) and SCALE_FIRST.read(meta, kind)
    return Workload(
        kind,
        meta.key,
        meta.uid,
        replicas_of(workload_object),
        wanted_by(workload_object),
        _change(workload_object),
        first,
    )


def scaled(owner: OwnerReference, namespace: str, replicas: int) -> Workload:
    """A workload of another kind, by its scale subresource."""
    return Workload(owner.kind, f"{namespace}/{owner.name}", owner.uid, replicas, replicas)


def _deployment(metadata: ObjectMeta) -> OwnerReference | None:
    owner = metadata.controller
    return owner if owner is not None and owner.kind == "Deployment" and owner.api_version.startswith("apps/") else None


def replicas_of(workload: Known) -> int:
    """How many pods a workload should have, of a Job: at most."""
    if isinstance(workload, Job):
        return workload.spec.parallelism
    return workload.spec.replicas


def wanted_by(workload: Known) -> int:
    """How many pods a workload should have now."""
    if not isinstance(workload, Job):
        return workload.spec.replicas
    spec, succeeded = workload.spec, workload.status.succeeded
    if spec.suspend or workload.status.completion_time is not None:
        return 0
    if spec.completions is None:
        # Once one pod of a work queue has succeeded, no others are made.
        return workload.status.active if succeeded else spec.parallelism
    return min(spec.parallelism, max(0, spec.completions - succeeded))


def _change(workload: Known) -> Change:
    """Whether the workload itself is replacing or removing pods: then nothing of it should be moved."""
    if isinstance(workload, Job | ReplicationController):
        return ""
    if workload.metadata.generation > workload.status.observed_generation > 0:
        return "has not been seen by its controller yet"
    if is_rolling_out(workload):
        return "is rolling out"
    return "is scaling down" if workload.status.replicas > replicas_of(workload) else ""


def is_rolling_out(workload: Deployment | ReplicaSet | StatefulSet) -> bool:
    if isinstance(workload, Deployment):
        status = workload.status
        return status.updated_replicas < min(workload.spec.replicas, status.replicas)
    if isinstance(workload, StatefulSet):
        update, current = workload.status.update_revision, workload.status.current_revision
        return bool(update and current and update != current)
    return False


def at_most(configured: CountOrPercent | None, replicas: int) -> int:
    """How many pods of a workload may be on the move, or away: as configured, else a tenth, two of four to ten, or
    one. A percentage comes to one at least; 0 is none."""
    if configured is None:
        limit = replicas // 10 if replicas > 10 else 2 if replicas >= 4 else 1
    elif isinstance(configured, int):
        limit = configured
    else:
        percent = whole_number(configured.removesuffix("%"))
        limit = max(1, replicas * percent // 100) if percent else 0
    return min(limit, replicas)
