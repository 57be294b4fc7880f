"""The moves that count against limits, read from PodMigrationJobs alone: a restart forgets none of them.

A move counts from when its job is let through until the job ends. So it still counts after the old pod is gone, while
the replacement is not ready; the job noted the pod's node and workload when it began.

    waiting      not let through yet: arbitration decides about these
    under way    let through, or running
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from koord.api.kinds import POD_MIGRATION_JOBS
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.shield import Shield
from koord.api.protocol.annotations.load import JOB_NODE, JOB_WORKLOAD, PASSED_ARBITRATION
from koord.api.protocol.crd.pod_migration_job import PodMigrationJob, PodMigrationJobPhase

_LEAVING: Final = ("Notice", "Eviction")
"""Conditions of a job that has given its pod notice, or evicts it."""


@dataclass(frozen=True, slots=True)
class Move:
    """One pod on the move."""

    pod: str
    "Its uid, or its key if it has no uid."
    namespace: str
    node: str = ""
    "The node that the pod leaves; empty if it had none, or if the job did not note it."
    owner: str = ""
    "The uid of the pod's controller, or of its workload as the job noted it."
    is_here: bool = True
    "Whether the old pod still exists and has not finished."
    is_leaving: bool = False
    "Whether the pod got notice, is being evicted, or is gone."
    job: str = ""
    "The name of the PodMigrationJob; empty while there is none."


@dataclass(slots=True)
class Moves:
    """All moves that count, at one moment. It grows as more pods are let through."""

    at_s: float = 0.0
    by_pod: dict[str, Move] = field(default_factory=dict)
    per_node: Counter[str] = field(default_factory=Counter)
    per_namespace: Counter[str] = field(default_factory=Counter)
    by_owner: dict[str, list[Move]] = field(default_factory=dict)

    def put(self, move: Move) -> None:
        if move.pod not in self.by_pod:
            self.by_pod[move.pod] = move
            self.per_node[move.node] += 1
            self.per_namespace[move.namespace] += 1
            self.by_owner.setdefault(move.owner, []).append(move)

    def add(self, pod: Pod) -> None:
        self.put(move_of(pod))

    def __contains__(self, pod: Pod) -> bool:
        return identity(pod) in self.by_pod

    def __iter__(self) -> Iterator[Move]:
        return iter(self.by_pod.values())

    def __len__(self) -> int:
        return len(self.by_pod)


def identity(pod: Pod) -> str:
    return pod.metadata.uid or pod.metadata.key


def move_of(pod: Pod, *, is_leaving: bool = False, job: str = "") -> Move:
    """The move of a pod that exists."""
    meta, owner = pod.metadata, pod.metadata.controller
    uid = "" if owner is None else owner.uid
    return Move(identity(pod), meta.namespace, pod.spec.node_name, uid, not pod.is_finished, is_leaving, job)


def move_by(job: PodMigrationJob, pod: Pod | None) -> Move:
    """The move that a job carries out. `pod`: the job's own, None if it is gone."""
    ref, meta = job.spec.pod_ref, job.metadata
    if pod is not None:
        is_leaving = any(condition.type in _LEAVING for condition in job.status.conditions)
        return move_of(pod, is_leaving=is_leaving, job=meta.name)
    node, workload = JOB_NODE.read(meta, "PodMigrationJob"), JOB_WORKLOAD.read(meta, "PodMigrationJob")
    name = ref.uid or f"{ref.namespace}/{ref.name}"
    return Move(name, ref.namespace, node, workload, is_here=False, is_leaving=True, job=meta.name)


def moves_of(
    jobs: Iterable[PodMigrationJob], pods: Callable[[str], Pod | None], now_s: float, shield: Shield | None = None
) -> Moves:
    """The moves under way."""
    moves, shield = Moves(now_s), shield or Shield()
    for job in jobs:
        with shield.about("say whether it is under way", POD_MIGRATION_JOBS, job.metadata):
            pod = pod_of(job, pods) if is_under_way(job) else None
            # A job that has not started and whose pod is gone has nothing to move.
            if pod is not None or job.status.phase is PodMigrationJobPhase.RUNNING:
                moves.put(move_by(job, pod))
    return moves


def moves_asked_for(
    jobs: Iterable[PodMigrationJob], pods: Callable[[str], Pod | None], now_s: float, shield: Shield | None = None
) -> Moves:
    """The moves under way, and those that wait."""
    jobs, shield = list(jobs), shield or Shield()
    moves = moves_of(jobs, pods, now_s, shield)
    for job in jobs:
        with shield.about("say whether it waits", POD_MIGRATION_JOBS, job.metadata):
            pod = pod_of(job, pods) if is_waiting(job) else None
            if pod is not None:
                moves.put(move_by(job, pod))
    return moves


def is_under_way(job: PodMigrationJob) -> bool:
    return not job.is_over and (job.status.phase is PodMigrationJobPhase.RUNNING or is_let_through(job))


def is_let_through(job: PodMigrationJob) -> bool:
    """Whether arbitration has let a job through, for the pod that its reference has the uid of. A job whose pod was not
    there has none: if a pod of that name comes later, the job is ruled on again."""
    return PASSED_ARBITRATION.read(job.metadata, "PodMigrationJob") and bool(job.spec.pod_ref.uid)


def is_waiting(job: PodMigrationJob) -> bool:
    return not job.is_over and not is_under_way(job) and not job.spec.paused


def pod_of(job: PodMigrationJob, pods: Callable[[str], Pod | None]) -> Pod | None:
    """The pod of a job, and not another of its name."""
    ref = job.spec.pod_ref
    pod = pods(f"{ref.namespace}/{ref.name}")
    return pod if pod is not None and (not ref.uid or pod.metadata.uid == ref.uid) else None
