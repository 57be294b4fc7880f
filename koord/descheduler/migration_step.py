"""A step of a move: the state that it is decided from, the actions that it asks for, and how a job ends.

Actions are data, carried out by `live/carrying_out.py`. Each may be carried out twice: a reservation has the job's own
name, and a pod is evicted by its uid.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from msgspec.structs import replace

from koord.api.kubernetes.pod import Pod
from koord.api.protocol.crd.pod_migration_job import PodMigrationJob, PodMigrationJobPhase
from koord.api.protocol.crd.reservation import Reservation
from koord.descheduler.held_room import Sibling, is_own
from koord.descheduler.job_status import condition_of, with_condition
from koord.descheduler.parting import Change, Scaling, taken_back

AGAIN_S: Final = 3.0
"""After how long a waiting job is reconciled again if no event comes."""
SOON_S: Final = 0.3
"""The same after a change of the job's own, which may cause no event."""
Policy: TypeAlias = Literal["Eviction", "Delete", "SoftEviction"]


@dataclass(frozen=True, slots=True)
class MigrationState:
    """What a job is about, at this moment."""

    pod: Pod | None
    "The pod with the name that the job refers to."
    reservation: Reservation | None = None
    bound: Pod | None = None
    "The pod that uses the reservation."
    wait_s: float = 0.0
    "How long until limits let another pod go."
    scaling: Scaling | None = None
    "Its Deployment, where pods are replaced before they go."
    siblings: tuple[Sibling, ...] = ()
    "Other jobs that move pods of the same workload."
    workload: str = ""
    "The uid of its workload."
    whole: tuple[Pod, ...] | None = None
    "The pods of its workload, if that has as many as it wants, all on nodes, and none of them uses the reservation."
    must_stay: str = ""
    "Why the pod must not leave just now: too many others of its workload are away."

    def has_pod_of(self, job: PodMigrationJob) -> bool:
        """Whether the job's own pod exists, and not another pod of its name."""
        return self.pod is not None and self.pod.metadata.uid == job.spec.pod_ref.uid

    def pod_stays(self, job: PodMigrationJob) -> bool:
        """Whether the job's own pod exists and is not being deleted."""
        return self.pod is not None and self.has_pod_of(job) and self.pod.metadata.deletion_timestamp is None

    def has_left(self, job: PodMigrationJob) -> bool:
        """Whether the job made its pod leave for good: the pod is gone, or being deleted."""
        return condition_of(job, "Eviction") is not None and not self.pod_stays(job)

    def is_on(self, job: PodMigrationJob, node: str) -> bool:
        """Whether the job's own pod is on this node."""
        return self.pod is not None and self.has_pod_of(job) and self.pod.spec.node_name == node != ""


@dataclass(frozen=True, slots=True)
class MakeReservation:
    """Of the pod, or of the job's template; see `reservation_for`."""

    name: str


@dataclass(frozen=True, slots=True)
class DropReservation:
    name: str


@dataclass(frozen=True, slots=True)
class OrderReservation:
    """Gives a reservation that the user made its order, so that it comes before others."""

    name: str


@dataclass(frozen=True, slots=True)
class TakeOverReservation:
    """Makes this job the owner of the reservation that another job left."""

    name: str


@dataclass(frozen=True, slots=True)
class EvictPod:
    namespace: str
    name: str
    uid: str
    policy: Policy
    delete_options: Mapping[str, Any]
    reason: str = ""
    "Why, for the pod's event."
    trigger: str = ""
    "The plugin that asked; empty if no plugin did."


Action: TypeAlias = MakeReservation | DropReservation | OrderReservation | TakeOverReservation | EvictPod | Change


@dataclass(frozen=True, slots=True)
class Step:
    """What to do and then write. If an action fails, `refused` says what to write instead."""

    job: PodMigrationJob
    actions: tuple[Action, ...] = ()
    again_s: float | None = None
    "When to reconcile again if no event comes before; None to wait for an event."


def failed(job: PodMigrationJob, state: MigrationState, reason: str, message: str, now_s: float) -> Step:
    status = replace(job.status, phase=PodMigrationJobPhase.FAILED, reason=reason, message=message)
    ended = replace(job, status=status)
    return Step(ended, leftovers(ended, state, now_s))


def succeeded(job: PodMigrationJob, now_s: float) -> Step:
    status = replace(job.status, phase=PodMigrationJobPhase.SUCCEEDED, status="Complete", reason="", message="")
    return Step(replace(job, status=status))


def leftovers(job: PodMigrationJob, state: MigrationState, now_s: float) -> tuple[Action, ...]:
    """What the job made and no pod will use."""
    if job.status.phase is PodMigrationJobPhase.SUCCEEDED:
        return ()
    back = taken_back(job, state.pod if state.has_pod_of(job) else None, state.scaling, now_s)
    if state.reservation is not None and is_own(job, state.reservation):
        return (*back, DropReservation(state.reservation.metadata.name))
    return back


def refused(job: PodMigrationJob, action: Action, why: str, now_s: float) -> PodMigrationJob:
    """The job to write after an action failed. The action is retried until the job times out."""
    if isinstance(action, MakeReservation):
        return with_condition(job, "ReservationCreated", False, "FailedCreateReservation", why, now_s)
    if isinstance(action, EvictPod):
        return with_condition(job, "Eviction", False, "FailedEvict", why, now_s)
    return job
