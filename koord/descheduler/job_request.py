"""The PodMigrationJob that asks for a proposed move, with who asked and why; and the jobs that arbitration rules on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from msgspec.structs import replace

from koord.api.configuration.descheduler_args import MigrationControllerArgs
from koord.api.kinds import POD_MIGRATION_JOBS
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.shield import Shield
from koord.api.protocol.annotations.load import (
    EVICT_REASON,
    EVICT_TRIGGER,
    JOB_CREATED_BY,
    JOB_PROFILE,
)
from koord.api.protocol.crd.pod_migration_job import PodMigrationJob, PodMigrationJobPhase
from koord.descheduler.arbitration import MoveRequest
from koord.descheduler.evictable import not_yet
from koord.descheduler.job_status import created_s
from koord.descheduler.moves import Moves, identity, is_waiting, moves_of, pod_of
from koord.descheduler.plugin import Proposal
from koord.descheduler.rules import Rules
from koord.descheduler.workloads import Workloads


def job_request(
    proposal: Proposal, args: MigrationControllerArgs, *, name: str, created_by: str, profile: str
) -> dict[str, Any]:
    """The object to create."""
    meta = proposal.pod.metadata
    spec: dict[str, Any] = {
        "podRef": {"namespace": meta.namespace, "name": meta.name, "uid": meta.uid},
        "mode": args.default_job_mode,
        "ttl": args.default_job_ttl,
    }
    if args.default_delete_options:
        spec["deleteOptions"] = dict(args.default_delete_options)
    return {
        "apiVersion": POD_MIGRATION_JOBS.api_version,
        "kind": POD_MIGRATION_JOBS.kind,
        "metadata": {
            "name": name,
            "annotations": {
                EVICT_REASON.key: proposal.reason,
                EVICT_TRIGGER.key: proposal.by,
                JOB_CREATED_BY.key: created_by,
                JOB_PROFILE.key: profile,
            },
        },
        "spec": spec,
    }


def move_name(uid: str, earlier: Iterable[str]) -> str:
    """Of a pod's next job, given those that it had. Two deschedulers that see the same find the same name, so that they
    do not ask twice."""
    return str(uuid5(NAMESPACE_OID, " ".join((uid, *sorted(earlier)))))


def begins(job: PodMigrationJob, after: PodMigrationJob) -> bool:
    """Whether a step makes a job that was only let through one that runs."""
    running = PodMigrationJobPhase.RUNNING
    return job.status.phase is not running and after.status.phase is running


def sorted_out(
    jobs: Iterable[PodMigrationJob],
    pods: Callable[[str], Pod | None],
    now_s: float,
    rules: Callable[[PodMigrationJob], Rules],
    shield: Shield | None = None,
) -> tuple[list[MoveRequest], Moves]:
    """The jobs to rule on, and the moves under way. Several jobs for one pod wait for one of them: the one
    under way, else the oldest."""
    jobs, waiting, shield = list(jobs), list[PodMigrationJob](), shield or Shield()
    for job in jobs:
        with shield.about("rule on it", POD_MIGRATION_JOBS, job.metadata):
            if is_waiting(job):
                waiting.append(job)
    moves = moves_of(jobs, pods, now_s, shield)
    first = {move.pod: move.job for move in moves}
    asked = list[MoveRequest]()
    for job in sorted(waiting, key=lambda job: (created_s(job, now_s), job.metadata.name)):
        name, pod = job.metadata.name, pod_of(job, pods)
        behind = "" if pod is None else first.setdefault(identity(pod), name)
        asked.append(MoveRequest(name, created_s(job, now_s), pod, rules(job), behind if behind != name else ""))
    return asked, moves


def why_wait_again(
    job: PodMigrationJob,
    pod: Pod,
    jobs: Iterable[PodMigrationJob],
    pods: Callable[[str], Pod | None],
    rules: Rules,
    workloads: Workloads,
    now_s: float,
) -> str | None:
    """Why a job that was let through must wait after all; None if it may begin. `jobs`: all jobs, as the API server has
    them. Another descheduler that decides at the same time may have let others through."""
    others = (other for other in jobs if other.metadata.uid != job.metadata.uid)
    moves = moves_of(others, pods, now_s)
    return "it is moving already" if pod in moves else not_yet(pod, rules, workloads, moves)


def forbidden(job: PodMigrationJob, why: str) -> PodMigrationJob:
    """A job that arbitration refuses for good."""
    status = replace(job.status, phase=PodMigrationJobPhase.FAILED, reason="ForbiddenMigratePod", message=why)
    return replace(job, status=status)


def held_back(job: PodMigrationJob, why: str) -> PodMigrationJob:
    """A job that must wait for others, with why."""
    status = replace(job.status, phase=PodMigrationJobPhase.PENDING, reason="Waiting", message=why)
    return replace(job, status=status)
